//! A clock that a test sets.

use std::{cell::Cell, time::Duration};

thread_local! {
    static NOW: Cell<Option<Duration>> = const { Cell::new(None) };
}

pub(super) fn now() -> Option<Duration> {
    NOW.get()
}

/// From now on, this thread's clock stands at this time.
pub(crate) fn to(since_start: Duration) {
    NOW.set(Some(since_start));
}
