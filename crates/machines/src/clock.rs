//! The clock that measures leases.

use std::time::{Duration, SystemTime};

use navlock_platform::clock;

/// A moment, as the time since the start of the machine. The time in which the machine was
/// suspended counts as well.
///
/// The time of a lease goes on while its holder's machine sleeps. The clock of `Instant` stands
/// still meanwhile on Linux: by that clock, a holder would believe in a lock that belongs to
/// somebody else.
#[must_use]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uptime(Duration);

impl Uptime {
    /// This moment.
    pub fn now() -> Self {
        #[cfg(test)]
        if let Some(set) = simulation::now() {
            return Self(set);
        }
        Self(Duration::from_nanos(clock::uptime()))
    }

    /// The moment that is this much later.
    pub fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }

    /// The moment that is this much earlier.
    pub(crate) fn before(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time))
    }

    /// The moment that is this long after the start of the machine.
    #[cfg(test)]
    pub(crate) fn now_at(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// How long ago it was.
    pub fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }

    /// The time since the start of the machine.
    pub(crate) fn since_start(self) -> Duration {
        self.0
    }
}

/// Now, in milliseconds since 1970, for people. No decision depends on this.
pub(crate) fn wall_millis() -> u64 {
    #[cfg(test)]
    if simulation::now().is_some() {
        return 0;
    }
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The same for this moment in the past.
pub(crate) fn wall_millis_at(moment: Uptime) -> u64 {
    let ago = u64::try_from(moment.elapsed().as_millis()).unwrap_or(u64::MAX);
    wall_millis().saturating_sub(ago)
}

#[cfg(test)]
pub(crate) mod simulation;
