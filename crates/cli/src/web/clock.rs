//! Moments as numbers with which a page on another machine can calculate.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::time::millis;

/// Milliseconds since 1970, from one reading of the clock. So moments stay in their order, and ages
/// stay true, even if the clock is set meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    read: Instant,
    then: u64,
}

impl Default for Clock {
    fn default() -> Self {
        let then = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { read: Instant::now(), then: millis(then) }
    }
}

impl Clock {
    pub(super) fn at(self, moment: Instant) -> u64 {
        match moment.checked_duration_since(self.read) {
            Some(later) => self.then.saturating_add(millis(later)),
            None => self.then.saturating_sub(millis(self.read.duration_since(moment))),
        }
    }

    pub(super) fn now(self) -> u64 {
        self.at(Instant::now())
    }
}
