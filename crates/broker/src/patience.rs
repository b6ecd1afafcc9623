//! A limit for how long several waits take together.

use std::time::{Duration, Instant};

/// A limit for the total of several waits. Each of these waits has its own limit too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience(Option<Instant>);

impl Patience {
    /// No limit for the total.
    pub(crate) fn endless() -> Self {
        Self(None)
    }

    pub(crate) fn until(deadline: Instant) -> Self {
        Self(Some(deadline))
    }

    /// A limit that ends after this time from now.
    pub(crate) fn lasting(time: Duration) -> Self {
        Self(Instant::now().checked_add(time))
    }

    pub(crate) fn is_over(self) -> bool {
        self.0.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// How long a wait may take whose own limit is `limit`.
    pub(crate) fn at_most(self, limit: Duration) -> Duration {
        let left = self.0.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.map_or(limit, |left| left.min(limit))
    }
}
