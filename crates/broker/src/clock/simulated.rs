//! The clock of the simulation.

use std::{
    cell::Cell,
    sync::LazyLock,
    time::{Duration, Instant},
};

use navlock_wire::Moment;

thread_local! {
    /// The clock of this thread; 0 for that of the system.
    static CLOCK: Cell<Moment> = const { Cell::new(0) };
}

/// Sets the clock of this thread. 0 gives it that of the system again.
pub(crate) fn set(now: Moment) {
    CLOCK.set(now);
}

/// Sets the clock of this thread forward, or back.
pub(crate) fn shift(by: i64) {
    CLOCK.set(CLOCK.get().saturating_add_signed(by));
}

/// Whether this thread has a clock of its own.
pub(crate) fn is_set() -> bool {
    CLOCK.get() > 0
}

/// The time on the clock of this thread, if it has one. Each look takes a nanosecond.
pub(super) fn now() -> Option<Moment> {
    let now = CLOCK.get();
    (now > 0).then(|| CLOCK.replace(now + 1) + 1)
}

/// The same time as a moment of the standard library.
pub(super) fn instant() -> Option<Instant> {
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    now().map(|now| *ORIGIN + Duration::from_nanos(now))
}
