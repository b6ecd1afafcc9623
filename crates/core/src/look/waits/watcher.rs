//! Deadlocks that last.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use foldhash::fast::RandomState;

use super::{Deadlock, deadlocks::found};
use crate::look::{LockId, Overview};

/// Finds deadlocks in overviews that are given to it one after the other. It tells each deadlock once:
/// when an overview shows it that is later by a given time, or more, than the first one that showed
/// it.
///
/// An overview is the sum of news from many, who are heard one after the other. So what one overview
/// shows may never have been there as a whole. What two overviews show was there.
///
/// ```
/// # use std::future::IntoFuture;
/// # use navlock::{Error, UserAgent, blocking::block_on_timeout, look::LookOptions};
/// # let user_agent = UserAgent::new();
/// # let locks = user_agent.lock_manager("app");
/// # let mut looker = user_agent.look(LookOptions::default().once()).expect("in this process");
/// # let account = locks.lock("account").blocking()?;
/// # let mut again = locks.lock("account").inside(&account).into_future();
/// # assert!(block_on_timeout(&mut again, std::time::Duration::ZERO).is_none());
/// use std::time::{Duration, Instant};
///
/// use navlock::look::Watcher;
///
/// let second = Duration::from_secs(1);
/// let mut watcher = Watcher::new(second).only_certain();
/// looker.next(None)?;
/// let now = Instant::now();
/// assert!(watcher.look(looker.overview(), now).is_empty());
/// assert_eq!(watcher.next(), Some(now + second));
///
/// // A second later nothing has changed.
/// let lasting = watcher.look(looker.overview(), now + second);
/// assert_eq!(lasting.len(), 1);
/// assert!(watcher.confirmed().eq(&lasting));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Watcher {
    /// How long a deadlock has to last before it is told.
    lasting: Duration,
    only_certain: bool,
    seen: Vec<SeenDeadlock>,
}

#[derive(Debug)]
struct SeenDeadlock {
    deadlock: Deadlock,
    since: Instant,
    is_confirmed: bool,
}

impl Watcher {
    /// A watcher that tells deadlocks once they have lasted for this time.
    pub fn new(lasting: Duration) -> Self {
        Self { lasting, only_certain: false, seen: Vec::new() }
    }

    /// Makes the watcher look only for deadlocks that are certain, which takes less time.
    #[must_use]
    pub fn only_certain(mut self) -> Self {
        self.only_certain = true;
        self
    }

    /// Looks at what there is now. Returns the deadlocks that this confirms for the first time.
    pub fn look(&mut self, overview: &Overview, now: Instant) -> Vec<Deadlock> {
        self.seen.retain(|seen| seen.deadlock.stands(overview));
        // They are in a map because there may be very many.
        let known = self.seen.iter().enumerate().map(|(at, seen)| (seen.deadlock.gives_way(), at));
        let known: HashMap<LockId, usize, RandomState> = known.collect();
        for deadlock in found(overview, !self.only_certain) {
            let known = known.get(&deadlock.gives_way()).map(|at| &mut self.seen[*at]);
            let is_certain = deadlock.is_certain;
            let new = SeenDeadlock { deadlock, since: now, is_confirmed: false };
            match known {
                // If a cycle with the same last request has other members now, the deadlock that
                // was seen first counts, because it still stands.
                Some(seen) if seen.deadlock.is_certain || !is_certain => {}
                // The deadlock was only possible before, and is certain now.
                Some(seen) => *seen = new,
                None => self.seen.push(new),
            }
        }
        let lasting = self.lasting;
        let lasts = |seen: &&mut SeenDeadlock| {
            !seen.is_confirmed && now.saturating_duration_since(seen.since) >= lasting
        };
        // A deadlock that was seen first in this very look has not been seen twice.
        let again = |seen: &&mut SeenDeadlock| seen.since < now;
        let told = self.seen.iter_mut().filter(lasts).filter(again).map(|seen| {
            seen.is_confirmed = true;
            seen.deadlock.clone()
        });
        told.collect()
    }

    /// Forgets that the deadlock of this request has lasted: it has to be seen again, and to last again. This
    /// is for a caller that [was told](Self::look) of the deadlock and knows that somebody in it may have
    /// gone.
    pub fn put_off(&mut self, request: LockId) {
        self.seen.retain(|seen| seen.deadlock.gives_way() != request);
    }

    /// When another look may confirm a deadlock, even if nothing happens until then. `None` if there is
    /// nothing to confirm.
    pub fn next(&self) -> Option<Instant> {
        let unconfirmed = self.seen.iter().filter(|seen| !seen.is_confirmed);
        unconfirmed.filter_map(|seen| seen.since.checked_add(self.lasting)).min()
    }

    /// The deadlocks that are confirmed, as of the last overview.
    pub fn confirmed(&self) -> impl Iterator<Item = &Deadlock> {
        self.seen.iter().filter(|seen| seen.is_confirmed).map(|seen| &seen.deadlock)
    }

    /// The confirmed and certain deadlock that this request has closed.
    pub fn gives_way(&self, request: LockId) -> Option<&Deadlock> {
        self.confirmed().find(|deadlock| deadlock.is_certain && deadlock.gives_way() == request)
    }
}
