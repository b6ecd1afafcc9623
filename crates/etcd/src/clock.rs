//! The clock by which a lease is counted.

use std::time::{Duration, SystemTime};

use navlock_platform::clock;

/// A moment: how long after the start of the machine, with the time in which it was suspended.
///
/// A lease goes on ending while its holder's machine sleeps, so the clock of `Instant`, which on
/// Linux stands still meanwhile, would have a holder believe in a lock that is another's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Uptime(Duration);

impl Uptime {
    pub(crate) fn now() -> Self {
        #[cfg(test)]
        if let Some(set) = set::now() {
            return set;
        }
        Self(Duration::from_nanos(clock::uptime()))
    }

    pub(crate) fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }

    pub(crate) fn before(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time))
    }

    /// The moment so long after the start of the machine.
    #[cfg(test)]
    pub(crate) fn now_at(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// How long ago it was.
    pub(crate) fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }

    /// Since the start of the machine.
    pub(crate) fn since_start(self) -> Duration {
        self.0
    }
}

/// Nanoseconds on the clock that all processes of the machine share.
pub(crate) fn monotonic() -> u64 {
    #[cfg(test)]
    if let Some(set) = set::now() {
        return u64::try_from(set.since_start().as_nanos()).unwrap_or(u64::MAX);
    }
    clock::monotonic()
}

/// Milliseconds since 1970, for people: nothing is decided by them.
pub(crate) fn wall_millis() -> u64 {
    #[cfg(test)]
    if set::now().is_some() {
        return 0;
    }
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A clock that goes as a test says.
#[cfg(test)]
pub(crate) mod set {
    use std::{cell::Cell, time::Duration};

    use super::Uptime;

    thread_local! {
        static NOW: Cell<Option<Uptime>> = const { Cell::new(None) };
    }

    pub(super) fn now() -> Option<Uptime> {
        NOW.get()
    }

    /// From here on this thread's clock stands there.
    pub(crate) fn to(since_start: Duration) {
        NOW.set(Some(Uptime(since_start)));
    }
}
