//! What a name looks like, as far as its watch has told: who holds, and who waits in which order.
//!
//! Sans-IO. It is told lists and events, and asked who may be granted. It may be behind, never
//! wrong: whatever is done because of it is a transaction that looks again. One thing need not be
//! looked at again: that nobody waits before the first. A mirror that has seen a request has seen
//! all that were made before it, and none is ever made before it later, but by who owns the name: then
//! nobody else grants anything, and until that is seen nobody is grantable here.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use navlock_core::{Lost, Mode};
use navlock_engine::FencingToken;

use crate::{
    ended::Ended,
    hash::HashState,
    keys::{LockKey, Phase, RequestKey},
    tokens::Grant,
    values::Value,
};

/// What entries are ordered by: the revision that made them, or gave them their place if that was another,
/// their place in that, and what makes each different.
type QueueOrder = (i64, u64, RequestKey);

/// The mirror of one name.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    /// By grant.
    held: BTreeMap<QueueOrder, Entry>,
    /// How many of those are exclusive: none or one, but it is not for us to insist.
    exclusive: usize,
    /// By request.
    queue: BTreeMap<QueueOrder, Entry>,
    /// Whose the name is: nobody's, or one's.
    owners: BTreeMap<u128, Entry>,
    /// How many of all these each connection has.
    parties: HashMap<u128, usize, HashState>,
    /// Where each key stands.
    places: HashMap<(Phase, RequestKey), QueueOrder, HashState>,
    /// All that happened up to this revision is in it, by a list.
    listed: i64,
    /// The last revision that it was told of.
    revision: i64,
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

    /// Whether it was told all that there was at some revision.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed > 0
    }

    /// Becomes what was listed at this revision, unless it is further already.
    pub(crate) fn reset(&mut self, listed: impl IntoIterator<Item = Event>, revision: i64) {
        if revision < self.revision {
            return;
        }
        (self.held, self.exclusive, self.queue) = Default::default();
        (self.owners, self.parties) = Default::default();
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
        let Event { key: LockKey { phase, mode, request, .. }, put: Some(put), .. } = event else {
            return;
        };
        let Put { made, lease, value } = put;
        let entry = Entry { request, mode, made, lease, value };
        *self.parties.entry(request.owner).or_default() += 1;
        let (order, nth) = entry.place();
        let place = (entry.made, nth, request);
        let place = match phase {
            Phase::Held => {
                self.exclusive += usize::from(mode == Mode::Exclusive);
                self.held.insert(place, entry);
                place
            }
            Phase::Queued => {
                let place = (order, nth, request);
                self.queue.insert(place, entry);
                place
            }
            Phase::Owned => {
                self.owners.insert(request.owner, entry);
                place
            }
        };
        self.places.insert((phase, request), place);
    }

    fn remove(&mut self, key: &LockKey) {
        let Some(place) = self.places.remove(&(key.phase, key.request)) else {
            return;
        };
        let owner = key.request.owner;
        if let Some(count) = self.parties.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                self.parties.remove(&owner);
            }
        }
        match key.phase {
            Phase::Held => {
                let gone = self.held.remove(&place);
                let was_exclusive = gone.is_some_and(|gone| gone.mode == Mode::Exclusive);
                self.exclusive -= usize::from(was_exclusive);
            }
            Phase::Queued => {
                self.queue.remove(&place);
            }
            Phase::Owned => {
                self.owners.remove(&owner);
            }
        }
    }

    /// The requests that can be granted now, whosever they are: the first in the queue, and the
    /// shared ones right behind a shared one.
    pub(crate) fn grantable(&self) -> impl Iterator<Item = &Entry> {
        let is_nobodys = self.owners.is_empty();
        let (exclusive, shared) = (self.held.is_empty(), self.exclusive == 0);
        Self::front(&self.queue, is_nobodys && exclusive, is_nobodys && shared)
    }

    /// The requests that can be granted once this lock is released, whosever they are.
    pub(crate) fn successors(&self, of: RequestKey) -> impl Iterator<Item = &Entry> {
        let is_alone = self.is_alone(of);
        Self::front(&self.queue, is_alone, is_alone)
    }

    /// Whether nobody holds but this, and the name is nobody's.
    pub(crate) fn is_alone(&self, of: RequestKey) -> bool {
        let holds_alone =
            self.held.len() == 1 && self.held.values().all(|holder| holder.request == of);
        holds_alone && self.owners.is_empty()
    }

    /// The requests that can be granted once this connection does not own the name any more, whosever
    /// they are.
    pub(crate) fn successors_of_owner(&self, owner: u128) -> impl Iterator<Item = &Entry> {
        let is_alone =
            self.held.is_empty() && self.owners.len() == 1 && self.owners.contains_key(&owner);
        Self::front(&self.queue, is_alone, is_alone)
    }

    /// What says that the name is this connection's.
    pub(crate) fn owned(&self, owner: u128) -> Option<&Entry> {
        self.owners.get(&owner)
    }

    /// What says whose the name is.
    pub(crate) fn owner(&self) -> Option<&Entry> {
        self.owners.values().next()
    }

    /// Whether nothing is there but what is this connection's.
    pub(crate) fn is_only(&self, owner: u128) -> bool {
        self.parties.keys().all(|of| *of == owner)
    }

    /// The front of a queue, as far as it can be granted.
    fn front(
        queue: &BTreeMap<QueueOrder, Entry>,
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

    /// Such a key, if it is there.
    pub(crate) fn get(&self, phase: Phase, request: RequestKey) -> Option<&Entry> {
        let entries = match phase {
            Phase::Held => &self.held,
            Phase::Queued => &self.queue,
            Phase::Owned => return self.owned(request.owner),
        };
        entries.get(self.places.get(&(phase, request))?)
    }

    /// A request, as a lock if it is one, and where it is.
    pub(crate) fn find(&self, request: RequestKey) -> Option<(Phase, &Entry)> {
        [Phase::Held, Phase::Queued]
            .into_iter()
            .find_map(|phase| Some((phase, self.get(phase, request)?)))
    }

    /// What has become of a lock that is not there any more, as far as that is still to be seen, by
    /// its token: only whoever has the lock since then is evidence of a theft.
    pub(crate) fn why_gone(&self, of: FencingToken) -> Lost {
        let is_thief = |entry: &Entry| entry.grant().token > of && entry.mode == Mode::Exclusive;
        if self.held.values().any(is_thief) { Lost::Stolen } else { Lost::Removed }
    }

    /// Whether anybody holds.
    pub(crate) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// The requests that wait.
    pub(crate) fn queue(&self) -> impl Iterator<Item = &Entry> {
        self.queue.values()
    }

    /// All locks and requests there are, and where.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Phase, &Entry)> {
        let held = self.held.values().map(|entry| (Phase::Held, entry));
        held.chain(self.queue.values().map(|entry| (Phase::Queued, entry)))
    }
}

impl Entry {
    /// The grant, if it is a lock.
    pub(crate) fn grant(&self) -> Grant {
        Grant::marked(self.made, Value::mark(&self.value))
    }

    /// The revision by which it is in the queue, if it waits.
    pub(crate) fn order(&self) -> i64 {
        order(self.made, &self.value)
    }

    /// By what it is in the queue, if it waits: that, and its place in it.
    pub(crate) fn place(&self) -> (i64, u64) {
        (self.order(), Value::place(&self.value))
    }

    /// It, as one that is to end wherever it is.
    pub(crate) fn ended(&self) -> Ended {
        Ended { id: None, request: self.request, mode: self.mode, only: None }
    }
}

/// The revision by which a request is in the queue that was made in this one.
pub(crate) fn order(made: i64, value: &[u8]) -> i64 {
    match Value::mark(value) {
        0 => made,
        mark => i64::try_from(mark).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests;
