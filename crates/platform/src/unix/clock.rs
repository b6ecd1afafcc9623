//! The clocks of the machine, which all its processes share.

/// Nanoseconds on a clock that never goes back. It may stand still while the machine is suspended.
pub fn monotonic() -> u64 {
    read(MONOTONIC)
}

/// [`monotonic`] at less cost: the result may be some milliseconds old.
pub fn recent() -> u64 {
    read(RECENT)
}

/// Nanoseconds since the start of the machine, with the time in which it was suspended.
pub fn uptime() -> u64 {
    read(UPTIME)
}

#[cfg(target_vendor = "apple")]
use self::apple::{MONOTONIC, RECENT, UPTIME, read};
#[cfg(not(target_vendor = "apple"))]
use self::elsewhere::{MONOTONIC, RECENT, UPTIME, read};

#[cfg(not(target_vendor = "apple"))]
mod elsewhere {
    use rustix::time::{ClockId, clock_gettime};

    pub(super) const MONOTONIC: ClockId = ClockId::Monotonic;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) const RECENT: ClockId = ClockId::MonotonicCoarse;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) const UPTIME: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) const RECENT: ClockId = MONOTONIC;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) const UPTIME: ClockId = MONOTONIC;

    pub(super) fn read(clock: ClockId) -> u64 {
        let time = clock_gettime(clock);
        super::nanoseconds(time.tv_sec, time.tv_nsec)
    }
}

#[cfg(target_vendor = "apple")]
mod apple {
    use nix::{libc, time::ClockId};

    /// `mach_continuous_time`, which goes on while the machine is suspended. `CLOCK_MONOTONIC` is
    /// no such clock here: it is the time of day minus that of the start, in microseconds.
    pub(super) const MONOTONIC: ClockId = ClockId::from_raw(libc::CLOCK_MONOTONIC_RAW);
    pub(super) const RECENT: ClockId = MONOTONIC;
    pub(super) const UPTIME: ClockId = MONOTONIC;

    pub(super) fn read(clock: ClockId) -> u64 {
        // Reading fails for clocks that do not exist, and for no other reason.
        clock.now().map_or(0, |time| super::nanoseconds(time.tv_sec(), time.tv_nsec()))
    }
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> u64 {
    // The clock counts from the start of the machine, so it is not negative, and lasts for
    // centuries.
    let seconds = u64::try_from(seconds).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds.unsigned_abs())
}

#[cfg(feature = "command")]
pub use self::alarm::Alarm;

#[cfg(feature = "command")]
mod alarm {
    use std::{io, os::fd::OwnedFd, time::Duration};

    use crate::wait::BorrowedSource;

    /// A source that becomes readable at a time on the clock of [`uptime`](super::uptime). Other
    /// waits are measured by a clock that stands still while the machine is suspended.
    #[derive(Debug)]
    pub struct Alarm(Option<OwnedFd>);

    impl Alarm {
        /// An alarm that has not been set.
        ///
        /// # Errors
        ///
        /// If there are no descriptors left.
        pub fn new() -> io::Result<Self> {
            #[cfg(target_os = "linux")]
            {
                use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
                Ok(Self(Some(timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?)))
            }
            #[cfg(not(target_os = "linux"))]
            Ok(Self(None))
        }

        /// Sets the alarm to this time since the start of the machine.
        ///
        /// # Errors
        ///
        /// If the system does not count as far.
        #[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "there is none"))]
        pub fn set(&self, uptime: Duration) -> io::Result<()> {
            #[cfg(target_os = "linux")]
            {
                use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
                let it_value =
                    Timespec::try_from(uptime).map_err(|_| io::ErrorKind::InvalidInput)?;
                let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
                let once = Itimerspec { it_interval, it_value };
                if let Some(timer) = &self.0 {
                    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once)?;
                }
            }
            Ok(())
        }

        /// What becomes readable; `None` where the system has no such thing, and the caller has to
        /// look at the clock now and then.
        pub fn source(&self) -> Option<BorrowedSource<'_>> {
            self.0.as_ref().map(crate::wait::Source::source)
        }
    }
}
