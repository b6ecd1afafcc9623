//! Terms: for how long an agent has its locks and requests, where these are leased.

use std::time::Duration;

/// The time for which an agent has its locks and requests. All moments are on the clock of
/// [`Backend::ends`](super::Backend::ends), since the start of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// When this term was asked for.
    pub now: Duration,
    /// When the reach was last heard of.
    pub heard: Duration,
    /// By when the reach should be heard of again. If it is not, something is wrong.
    pub due: Duration,
    /// When the agent's locks are lost, if the reach is not heard of again.
    pub ends: Duration,
    /// When others may be granted these locks. The work under the locks must have stopped before
    /// this moment.
    pub expires: Duration,
}

impl Term {
    /// For how long the reach has not been heard of, and for how long the agent still has its locks,
    /// if something is wrong.
    pub fn suspended(&self) -> Option<(Duration, Duration)> {
        let is_late = self.now >= self.due;
        is_late.then(|| (self.now.saturating_sub(self.heard), self.ends.saturating_sub(self.now)))
    }
}
