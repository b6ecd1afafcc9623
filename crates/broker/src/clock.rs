//! The clocks that all processes of a machine share.

use std::time::Duration;

use navlock_wire::{Moment, Uptime};
use rustix::time::{ClockId, clock_gettime};

/// This moment. What one process notes before it tells another is earlier than what that notes.
pub(crate) fn now() -> Moment {
    read(ClockId::Monotonic)
}

/// This moment, or one of the last few milliseconds: what it costs less to read.
pub(crate) fn recently() -> Moment {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::MonotonicCoarse;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    read(clock)
}

/// The time that has passed since then.
pub(crate) fn since(then: Moment) -> Duration {
    Duration::from_nanos(now().saturating_sub(then))
}

/// This moment, on the clock that goes on while the machine is suspended: what is somebody's for a
/// time only ends meanwhile.
pub(crate) fn uptime() -> Uptime {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    // Goes on meanwhile on Apple's systems.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    read(clock)
}

/// How long it is until then.
pub(crate) fn until(then: Uptime) -> Duration {
    Duration::from_nanos(then.saturating_sub(uptime()))
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // It counts from the start of the machine, so it is not negative, and lasts for centuries.
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec.unsigned_abs())
}
