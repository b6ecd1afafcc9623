//! When the time of a hold is over.

use std::{io, os::fd::OwnedFd, time::Duration};

use crate::time::uptime;

/// What nobody lives to see, and the kernel's clocks still count.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A time on a clock that goes on while the machine is suspended: what was to end meanwhile ends as
/// soon as it goes on.
pub(super) struct Timer {
    ends: Duration,
    /// Readable from then on. Other waits are measured by a clock that stands still meanwhile.
    descriptor: Option<OwnedFd>,
}

impl Timer {
    /// One that has not been set and is never over.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { ends: Duration::MAX, descriptor: descriptor()? })
    }

    /// Has it be over after this time, but not sooner than it would have been if it was set before.
    pub(super) fn extend(&mut self, time: Duration) -> io::Result<()> {
        let ends = uptime().saturating_add(time.min(LONGEST));
        if self.ends == Duration::MAX || ends > self.ends {
            set(self.descriptor.as_ref(), ends)?;
            self.ends = ends;
        }
        Ok(())
    }

    pub(super) fn left(&self) -> Duration {
        self.ends.saturating_sub(uptime())
    }

    pub(super) fn descriptor(&self) -> Option<&OwnedFd> {
        self.descriptor.as_ref()
    }
}

#[cfg(target_os = "linux")]
fn descriptor() -> io::Result<Option<OwnedFd>> {
    use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

    Ok(Some(timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?))
}

#[cfg(target_os = "linux")]
fn set(descriptor: Option<&OwnedFd>, ends: Duration) -> io::Result<()> {
    use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};

    let it_value = Timespec::try_from(ends).map_err(|_| io::ErrorKind::InvalidInput)?;
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
    if let Some(descriptor) = descriptor {
        timerfd_settime(descriptor, TimerfdTimerFlags::ABSTIME, &once)?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn descriptor() -> io::Result<Option<OwnedFd>> {
    Ok(None)
}

#[cfg(not(target_os = "linux"))]
fn set(_: Option<&OwnedFd>, _: Duration) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_too_long_and_none_is_shortened() {
        let mut timer = Timer::new().unwrap();
        timer.extend(Duration::from_secs(60)).unwrap();
        timer.extend(Duration::from_secs(1)).unwrap();
        assert!(timer.left() > Duration::from_secs(50));
        timer.extend(Duration::MAX).unwrap();
        assert!(timer.left() > LONGEST / 2);
    }
}
