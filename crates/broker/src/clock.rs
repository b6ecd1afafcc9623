//! The clocks that all processes of a machine share.

use std::time::Duration;

use navlock_platform::clock;
use navlock_wire::{BootTime, Moment};

/// This moment. What one process notes before it tells another is earlier than what that notes.
pub(crate) fn now() -> Moment {
    clock::monotonic()
}

/// This moment, or one of the last few milliseconds: what it costs less to read.
pub(crate) fn recently() -> Moment {
    clock::recent()
}

/// The time that has passed since then.
pub(crate) fn since(then: Moment) -> Duration {
    Duration::from_nanos(now().saturating_sub(then))
}

/// This moment, on the clock that goes on while the machine is suspended: what is somebody's for a
/// time only ends meanwhile.
pub(crate) fn uptime() -> BootTime {
    BootTime(clock::uptime())
}

/// A moment as it is said.
pub(crate) fn boot_time(since_start: Duration) -> BootTime {
    // They last for centuries.
    BootTime(u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX))
}

/// So many milliseconds, as they are said.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How long it is until then.
pub(crate) fn until(BootTime(then): BootTime) -> Duration {
    Duration::from_nanos(then.saturating_sub(uptime().0))
}
