//! What a bucket looks like, as far as its watch has told: who holds, and who waits in which order.
//!
//! Sans-IO. It is told lists and events, and asked who may be granted. It may be behind, never
//! wrong: whatever is done because of it is a transaction that looks again. One thing need not be
//! looked at again: that nobody waits before the first. A mirror that has seen a request has seen
//! all that were made before it, and none is ever made before it later.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use navlock_core::{Lost, Mode};
use navlock_engine::FencingToken;

use crate::{
    hash::HashState,
    keys::{LockKey, NameKey, Phase, RequestKey},
    query::token,
    transactions::Ended,
    values::Value,
};

/// What entries are ordered by: the revision that made them, their place in that, and what makes
/// each different.
type Place = (i64, u64, RequestKey);

/// The mirror of one bucket.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    names: HashMap<NameKey, Resource, HashState>,
    /// Where each key stands in its name.
    places: HashMap<(Phase, RequestKey), Place, HashState>,
    /// All that happened up to this revision is in it, by a list.
    listed: i64,
    /// The last revision that it was told of.
    revision: i64,
}

/// One name.
#[derive(Debug, Default)]
struct Resource {
    /// By grant.
    held: BTreeMap<Place, Entry>,
    /// How many of those are exclusive: none or one, but it is not for us to insist.
    exclusive: usize,
    /// By request.
    queue: BTreeMap<Place, Entry>,
}

/// A lock, or a request that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) request: RequestKey,
    pub(crate) mode: Mode,
    /// The revision that made it.
    pub(crate) made: i64,
    pub(crate) lease: i64,
    pub(crate) value: Arc<[u8]>,
}

/// A key that was put or deleted.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) key: LockKey,
    /// The revision in which it happened.
    pub(crate) revision: i64,
    /// `None` if it was deleted.
    pub(crate) put: Option<Put>,
}

/// What was put.
#[derive(Clone, Debug)]
pub(crate) struct Put {
    /// The revision that made the key: that of a later put, if there are two.
    pub(crate) made: i64,
    pub(crate) lease: i64,
    pub(crate) value: Arc<[u8]>,
}

impl Mirror {
    /// The last revision that it was told of.
    pub(crate) fn revision(&self) -> i64 {
        self.revision
    }

    /// Whether it was ever told all that there is.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed > 0
    }

    /// Becomes what was listed at this revision, unless it is further already.
    pub(crate) fn reset(&mut self, listed: impl IntoIterator<Item = Event>, revision: i64) {
        if revision < self.revision {
            return;
        }
        self.names.clear();
        self.places.clear();
        for event in listed {
            self.enter(event);
        }
        self.listed = revision;
        self.revision = revision;
    }

    /// Takes in what happened. Whether it was new.
    pub(crate) fn apply(&mut self, event: Event) -> bool {
        if event.revision <= self.listed {
            return false;
        }
        self.revision = self.revision.max(event.revision);
        self.remove(&event.key);
        self.enter(event);
        true
    }

    fn enter(&mut self, event: Event) {
        let Event { key: LockKey { name, phase, mode, request }, put: Some(put), .. } = event
        else {
            return;
        };
        let Put { made, lease, value } = put;
        let resource = self.names.entry(name).or_default();
        let place = (made, Value::place(&value), request);
        let entry = Entry { request, mode, made, lease, value };
        match phase {
            Phase::Held => {
                resource.exclusive += usize::from(mode == Mode::Exclusive);
                resource.held.insert(place, entry);
            }
            Phase::Queued => {
                resource.queue.insert(place, entry);
            }
        }
        self.places.insert((phase, request), place);
    }

    fn remove(&mut self, key: &LockKey) {
        let Some(place) = self.places.remove(&(key.phase, key.request)) else {
            return;
        };
        let Some(resource) = self.names.get_mut(&key.name) else {
            return;
        };
        match key.phase {
            Phase::Held => {
                let gone = resource.held.remove(&place);
                let was_exclusive = gone.is_some_and(|gone| gone.mode == Mode::Exclusive);
                resource.exclusive -= usize::from(was_exclusive);
            }
            Phase::Queued => {
                resource.queue.remove(&place);
            }
        }
        if resource.held.is_empty() && resource.queue.is_empty() {
            self.names.remove(&key.name);
        }
    }

    /// The requests that can be granted now, whosever they are: the first in the queue, and the
    /// shared ones right behind a shared one.
    pub(crate) fn grantable(&self, name: &NameKey) -> impl Iterator<Item = &Entry> {
        self.names.get(name).into_iter().flat_map(|resource| {
            let held = resource.held.len();
            Self::front(&resource.queue, held == 0, resource.exclusive == 0)
        })
    }

    /// The requests that can be granted once this lock is released, whosever they are.
    pub(crate) fn heirs(&self, name: &NameKey, of: RequestKey) -> impl Iterator<Item = &Entry> {
        let alone = move |resource: &&Resource| {
            resource.held.len() == 1 && resource.held.values().all(|holder| holder.request == of)
        };
        let resource = self.names.get(name).filter(alone).into_iter();
        resource.flat_map(|resource| Self::front(&resource.queue, true, true))
    }

    /// The front of a queue, as far as it can be granted.
    fn front(
        queue: &BTreeMap<Place, Entry>,
        exclusive: bool,
        shared: bool,
    ) -> impl Iterator<Item = &Entry> {
        let first = queue.values().next().map(|entry| entry.mode);
        let count = match first {
            Some(Mode::Exclusive) if exclusive => 1,
            Some(Mode::Shared) if shared => usize::MAX,
            _ => 0,
        };
        queue.values().take_while(move |entry| Some(entry.mode) == first).take(count)
    }

    /// Whether there is such a key, and since which revision.
    pub(crate) fn made(&self, phase: Phase, request: RequestKey) -> Option<i64> {
        self.places.get(&(phase, request)).map(|&(made, ..)| made)
    }

    /// A request of a name, as a lock if it is one, and where it is.
    pub(crate) fn find(&self, name: &NameKey, request: RequestKey) -> Option<(Phase, &Entry)> {
        let resource = self.names.get(name)?;
        [(Phase::Held, &resource.held), (Phase::Queued, &resource.queue)].into_iter().find_map(
            |(phase, entries)| Some((phase, entries.get(self.places.get(&(phase, request))?)?)),
        )
    }

    /// What has become of a lock that is not there any more, as far as that is still to be seen, by
    /// its token: only whoever has the lock since then is evidence of a theft.
    pub(crate) fn why_gone(&self, name: &NameKey, of: FencingToken) -> Lost {
        let is_thief = |entry: &Entry| token(entry.made) > of && entry.mode == Mode::Exclusive;
        let resource = self.names.get(name);
        let is_stolen = resource.is_some_and(|of| of.held.values().any(is_thief));
        if is_stolen { Lost::Stolen } else { Lost::Removed }
    }

    /// All there is, and where.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&NameKey, Phase, &Entry)> {
        self.names.iter().flat_map(|(name, resource)| {
            let held = resource.held.values().map(move |entry| (name, Phase::Held, entry));
            let queue = resource.queue.values().map(move |entry| (name, Phase::Queued, entry));
            held.chain(queue)
        })
    }
}

impl Entry {
    /// It, as one that is to end wherever it is.
    pub(crate) fn ended(&self) -> Ended {
        Ended { id: None, request: self.request, mode: self.mode, only: None }
    }
}

#[cfg(test)]
mod tests;
