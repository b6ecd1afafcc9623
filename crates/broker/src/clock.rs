//! The clock that all processes of a machine share.

use std::time::Duration;

use navlock_wire::Moment;
use rustix::time::{ClockId, clock_gettime};

/// This moment. What one process notes before it tells another is earlier than what that notes.
pub(crate) fn now() -> Moment {
    let time = clock_gettime(ClockId::Monotonic);
    // It counts from the start of the machine, so it is not negative, and lasts for centuries.
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec.unsigned_abs())
}

/// The time that has passed since then.
pub(crate) fn since(then: Moment) -> Duration {
    Duration::from_nanos(now().saturating_sub(then))
}
