//! One point in time that bounds several waits.

use std::time::{Duration, Instant};

/// A deadline for several waits together. Each of these waits has a limit of its own too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// No deadline.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// A deadline at this instant.
    pub(crate) fn at(instant: Instant) -> Self {
        Self(Some(instant))
    }

    /// The deadline that is this time from now.
    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now().checked_add(time))
    }

    /// Whether the time is over. Without a deadline it never is.
    pub(crate) fn has_passed(self) -> bool {
        self.0.is_some_and(|instant| instant <= Instant::now())
    }

    /// How long a wait may take whose own limit is `limit`.
    pub(crate) fn cap(self, limit: Duration) -> Duration {
        let left = self.0.map(|instant| instant.saturating_duration_since(Instant::now()));
        left.map_or(limit, |left| left.min(limit))
    }
}
