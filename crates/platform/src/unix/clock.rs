//! The clocks of the machine, which all its processes share.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on a clock that never goes back. It may stand still while the machine is suspended.
pub fn monotonic() -> u64 {
    read(ClockId::Monotonic)
}

/// The same now or some milliseconds ago: what it costs less to read.
pub fn recent() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::MonotonicCoarse;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    read(clock)
}

/// Nanoseconds since the start of the machine, with the time in which it was suspended.
pub fn uptime() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    // Goes on meanwhile on Apple's systems.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    read(clock)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // It counts from the start of the machine, so it is not negative, and lasts for centuries.
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec.unsigned_abs())
}

#[cfg(feature = "command")]
pub use self::alarm::Alarm;

#[cfg(feature = "command")]
mod alarm {
    use std::{io, os::fd::OwnedFd, time::Duration};

    use crate::wait::BorrowedSource;

    /// What becomes readable at a time on the clock of [`uptime`](super::uptime). Other waits are
    /// measured by a clock that stands still while the machine is suspended.
    #[derive(Debug)]
    pub struct Alarm(Option<OwnedFd>);

    impl Alarm {
        /// One that has not been set.
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

        /// Sets it to this time since the start of the machine.
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

        /// What becomes readable; `None` where the system has no such thing, and it has to be looked
        /// what time it is.
        pub fn source(&self) -> Option<BorrowedSource<'_>> {
            self.0.as_ref().map(crate::wait::Source::source)
        }
    }
}
