//! Deadlocks that last.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use foldhash::fast::RandomState;

use super::{
    Deadlock,
    deadlocks::{certain_deadlocks, deadlocks},
};
use crate::look::{LockId, Overview};

/// Finds deadlocks in overviews that are shown to it one after the other, and tells each once: when it
/// was there in one overview, and is there still in another one that is as much later as was said.
///
/// An overview is made of what is heard of many, one after the other. What it shows for a moment may have
/// never been; what it shows twice was.
#[derive(Debug)]
pub struct Watcher {
    patience: Duration,
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
    /// One that tells what has lasted for this time.
    pub fn new(patience: Duration) -> Self {
        Self { patience, only_certain: false, seen: Vec::new() }
    }

    /// Has it look for those alone that are certain, which takes less time.
    #[must_use]
    pub fn only_certain(mut self) -> Self {
        self.only_certain = true;
        self
    }

    /// Looks at what there is now. The deadlocks that are confirmed by it, each for the first time.
    pub fn look(&mut self, overview: &Overview, now: Instant) -> Vec<Deadlock> {
        self.seen.retain(|seen| seen.deadlock.stands(overview));
        // There may be very many.
        let known = self.seen.iter().enumerate().map(|(at, seen)| (seen.deadlock.closed_by(), at));
        let known: HashMap<LockId, usize, RandomState> = known.collect();
        let look = if self.only_certain { certain_deadlocks } else { deadlocks };
        for found in look(overview) {
            let place = known.get(&found.closed_by()).map(|at| &mut self.seen[*at]);
            match place {
                // Of one that is told by other members now, the first ones count, as they stand.
                Some(seen) if seen.deadlock.is_certain || !found.is_certain => {}
                // More is known of it by now.
                Some(seen) => {
                    *seen = SeenDeadlock { deadlock: found, since: now, is_confirmed: false }
                }
                None => self.seen.push(SeenDeadlock {
                    deadlock: found,
                    since: now,
                    is_confirmed: false,
                }),
            }
        }
        let patience = self.patience;
        let lasts = |seen: &&mut SeenDeadlock| {
            !seen.is_confirmed && now.saturating_duration_since(seen.since) >= patience
        };
        // In that moment it was seen for the first time: that is not twice.
        let again = |seen: &&mut SeenDeadlock| seen.since < now;
        let told = self.seen.iter_mut().filter(lasts).filter(again).map(|seen| {
            seen.is_confirmed = true;
            seen.deadlock.clone()
        });
        told.collect()
    }

    /// Takes back that this request's deadlock has lasted: it has to be seen, and to last, once more. For who
    /// [was told](Self::look) of it and knows that somebody in it may have gone.
    pub fn put_off(&mut self, request: LockId) {
        self.seen.retain(|seen| seen.deadlock.closed_by() != request);
    }

    /// When it is worth to look again though nothing has happened; `None` if nothing is to be confirmed.
    pub fn next(&self) -> Option<Instant> {
        let unconfirmed = self.seen.iter().filter(|seen| !seen.is_confirmed);
        unconfirmed.filter_map(|seen| seen.since.checked_add(self.patience)).min()
    }

    /// Those that are confirmed, as of the last overview.
    pub fn confirmed(&self) -> impl Iterator<Item = &Deadlock> {
        self.seen.iter().filter(|seen| seen.is_confirmed).map(|seen| &seen.deadlock)
    }

    /// The confirmed and certain one that this request has closed.
    pub fn closed_by(&self, request: LockId) -> Option<&Deadlock> {
        self.confirmed().find(|deadlock| deadlock.is_certain && deadlock.closed_by() == request)
    }
}
