//! The clocks that all processes of a machine share.

#[cfg(test)]
pub(crate) mod simulated;

use std::time::{Duration, Instant};

use navlock_platform::clock;
use navlock_wire::{BootTime, Moment};

/// This moment. If a process notes a moment and then tells another process something, a moment that
/// the other process notes after that is later.
pub(crate) fn now() -> Moment {
    #[cfg(test)]
    if let Some(now) = simulated::now() {
        return now;
    }
    clock::monotonic()
}

/// This moment, or a moment of the last few milliseconds, which takes less time to read.
pub(crate) fn recently() -> Moment {
    #[cfg(test)]
    if let Some(now) = simulated::now() {
        return now;
    }
    clock::recent()
}

/// This moment, for what the daemon waits for.
pub(crate) fn instant() -> Instant {
    #[cfg(test)]
    if let Some(now) = simulated::instant() {
        return now;
    }
    Instant::now()
}

/// The time that has passed since this moment.
pub(crate) fn since(then: Moment) -> Duration {
    Duration::from_nanos(now().saturating_sub(then))
}

/// This moment, on the clock that goes on while the machine is suspended. Terms go on meanwhile as
/// well.
pub(crate) fn uptime() -> BootTime {
    BootTime(clock::uptime())
}

/// A moment in the form that messages have.
pub(crate) fn boot_time(since_start: Duration) -> BootTime {
    // 64 bits of nanoseconds last for centuries.
    BootTime(u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX))
}

/// How long it is until this moment.
pub(crate) fn until(BootTime(then): BootTime) -> Duration {
    Duration::from_nanos(then.saturating_sub(uptime().0))
}
