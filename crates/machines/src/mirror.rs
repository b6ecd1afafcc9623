//! The mirror of a name: its holders and its queue, as far as the watch has told them.
//!
//! Sans-IO. A mirror takes in lists and events, and says which requests can be granted. It may be
//! behind, but that does no harm: whatever is done because of it is a transaction that checks again.
//! One thing need not be checked again: that no request waits in the store before the mirror's first one. A
//! mirror that was told of a request was told of all earlier ones as well, and no later request gets a place
//! before it. The exception is an owner of the name, which may write requests with earlier places.
//! But while the name is owned, nobody else grants it, and a mirror that sees an owner says that no
//! request can be granted.
//!
//! What this connection has done itself enters the mirror with the answer to its transaction, before the
//! watch tells of it. So the watch may tell of what was before, and that does not undo the outcome. A
//! request that has entered so is granted only when the mirror was told of all that may be before it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use navlock_core::{Lost, Mode};
use navlock_engine::FencingToken;

use crate::{
    clock::Uptime,
    data::KeyValue,
    ended::Ended,
    hash::HashState,
    keys::{LockKey, Phase, RequestKey},
    tokens::Grant,
    values::Value,
    watched::{Event, Put},
};

/// The order of entries, by three numbers. The first is the revision that counts: the one that created the
/// key or, for a request to which an owner has given an earlier place, the revision of that place. The second
/// is the number within this revision. The third is the request's key.
type QueueOrder = (i64, u64, RequestKey);

/// The mirror of one name.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    /// The locks, in the order of their grants.
    held: BTreeMap<QueueOrder, Entry>,
    /// How many of these locks are exclusive. There should be at most one, but nothing here depends
    /// on that.
    exclusive: usize,
    /// The requests, in the order of the queue.
    queue: BTreeMap<QueueOrder, Entry>,
    /// The owner keys of the name, by connection. There is at most one.
    owners: BTreeMap<u128, Entry>,
    /// How many locks, requests and owner keys each connection has.
    key_counts: HashMap<u128, usize, HashState>,
    /// The place of each key.
    places: HashMap<(Phase, RequestKey), QueueOrder, HashState>,
    /// The revision of the last list. Everything up to this revision is in the mirror.
    listed: i64,
    /// The last revision of which the mirror was told. Everything up to this revision is in the mirror.
    revision: i64,
    /// The last change of each key that this connection has made in a later revision than `revision`.
    ahead: HashMap<(Phase, RequestKey), Event, HashState>,
    /// The revision of a change of our own that the watch is to tell next, and since when it is waited for.
    awaited: Option<(i64, Uptime)>,
}

/// A lock, or a request that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) request: RequestKey,
    pub(crate) mode: Mode,
    /// The revision that created its key.
    pub(crate) made: i64,
    /// The revision that wrote it last.
    pub(crate) written: i64,
    pub(crate) lease: i64,
    pub(crate) value: Arc<[u8]>,
}

impl Mirror {
    /// The last revision of which the mirror was told.
    pub(crate) fn revision(&self) -> i64 {
        self.revision
    }

    /// The last revisions of which the mirror knows, from others and from this connection itself. Each
    /// change of the mirror changes one of them.
    pub(crate) fn version(&self) -> (i64, i64) {
        let ahead = self.ahead.values().map(|own| own.revision).max();
        (self.revision, ahead.unwrap_or_default())
    }

    /// Whether the watch has not told for this long what this connection has done.
    pub(crate) fn is_behind(&self, patience: Duration) -> bool {
        self.awaited.is_some_and(|(_, since)| since.elapsed() > patience)
    }

    /// Whether the mirror has taken in a list, and so everything as of some revision.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed > 0
    }

    /// Takes in the state of a list at this revision, unless the mirror is further already.
    pub(crate) fn reset(&mut self, listed: impl IntoIterator<Item = Event>, revision: i64) {
        if revision < self.revision {
            return;
        }
        (self.held, self.exclusive, self.queue) = Default::default();
        (self.owners, self.key_counts) = Default::default();
        self.places.clear();
        for event in listed {
            self.enter(event);
        }
        (self.listed, self.revision) = (revision, revision);
        self.settle();
        for event in self.ahead.values().cloned().collect::<Vec<_>>() {
            self.enter(event);
        }
    }

    /// Takes in an event that the watch has told. Returns whether it was new.
    pub(crate) fn apply(&mut self, event: Event) -> bool {
        if event.revision <= self.listed {
            return false;
        }
        self.revision = self.revision.max(event.revision);
        let own = self.ahead.get(&(event.key.phase, event.key.request));
        if own.is_none_or(|own| own.revision <= event.revision) {
            self.enter(event);
        }
        true
    }

    /// Takes in what a transaction of this connection has done.
    pub(crate) fn take_own(&mut self, changes: Vec<Event>) {
        for event in changes {
            if event.revision > self.revision {
                self.awaited.get_or_insert_with(|| (event.revision, Uptime::now()));
                self.ahead.insert((event.key.phase, event.key.request), event.clone());
                self.enter(event);
            }
        }
    }

    /// To be called when the mirror was told of the last revision as a whole.
    pub(crate) fn settle(&mut self) {
        self.ahead.retain(|_, own| own.revision > self.revision);
        if self.awaited.is_some_and(|(awaited, _)| awaited <= self.revision) {
            let next = self.ahead.values().map(|own| own.revision).min();
            self.awaited = next.map(|next| (next, Uptime::now()));
        }
    }

    fn enter(&mut self, event: Event) {
        self.remove(&event.key);
        let Event { key: LockKey { phase, mode, request, .. }, revision, put: Some(put) } = event
        else {
            return;
        };
        let Put { made, lease, value } = put;
        let entry = Entry { request, mode, made, written: revision, lease, value };
        *self.key_counts.entry(request.owner).or_default() += 1;
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
        if let Some(count) = self.key_counts.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                self.key_counts.remove(&owner);
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

    /// The requests that can be granted now, of all connections: the first in the queue and, if it
    /// is shared, the shared requests right behind it.
    pub(crate) fn grantable(&self) -> impl Iterator<Item = &Entry> {
        let is_nobodys = self.owners.is_empty();
        let (exclusive, shared) = (self.held.is_empty(), self.exclusive == 0);
        self.front(is_nobodys && exclusive, is_nobodys && shared)
    }

    /// The requests, of all connections, that can be granted once this lock is released.
    pub(crate) fn successors(&self, of: RequestKey) -> impl Iterator<Item = &Entry> {
        let is_alone = self.is_alone(of);
        self.front(is_alone, is_alone)
    }

    /// Whether this is the only lock, and nobody owns the name.
    pub(crate) fn is_alone(&self, of: RequestKey) -> bool {
        let holds_alone =
            self.held.len() == 1 && self.held.values().all(|holder| holder.request == of);
        holds_alone && self.owners.is_empty()
    }

    /// The requests, of all connections, that can be granted once this connection does not own the
    /// name any more.
    pub(crate) fn successors_of_owner(&self, owner: u128) -> impl Iterator<Item = &Entry> {
        let is_alone =
            self.held.is_empty() && self.owners.len() == 1 && self.owners.contains_key(&owner);
        self.front(is_alone, is_alone)
    }

    /// The owner key of this connection, if there is one.
    pub(crate) fn owned(&self, owner: u128) -> Option<&Entry> {
        self.owners.get(&owner)
    }

    /// The owner key of the name, if there is one.
    pub(crate) fn owner(&self) -> Option<&Entry> {
        self.owners.values().next()
    }

    /// Whether all keys of the name are this connection's.
    pub(crate) fn is_only(&self, owner: u128) -> bool {
        self.key_counts.keys().all(|of| *of == owner)
    }

    /// The front of a queue, as far as it can be granted.
    fn front(&self, exclusive: bool, shared: bool) -> impl Iterator<Item = &Entry> {
        let first = self.queue.values().next().map(|entry| entry.mode);
        let count = match first {
            Some(Mode::Exclusive) if exclusive => 1,
            Some(Mode::Shared) if shared => usize::MAX,
            _ => 0,
        };
        self.first().take_while(move |entry| Some(entry.mode) == first).take(count)
    }

    /// The requests that are known to be the first in the queue: the mirror was told of all that may be
    /// before them, or an owner of the name has written them with the places that they had.
    pub(crate) fn first(&self) -> impl Iterator<Item = &Entry> {
        let is_known = |entry: &&Entry| entry.made <= self.revision || entry.order() < entry.made;
        self.queue.values().take_while(is_known)
    }

    /// The lock, request or owner key of this identity, if it is there.
    pub(crate) fn get(&self, phase: Phase, request: RequestKey) -> Option<&Entry> {
        let entries = match phase {
            Phase::Held => &self.held,
            Phase::Queued => &self.queue,
            Phase::Owned => return self.owned(request.owner),
        };
        entries.get(self.places.get(&(phase, request))?)
    }

    /// The key of a request: its lock, if it has become a lock, or else its place in the queue.
    pub(crate) fn find(&self, request: RequestKey) -> Option<(Phase, &Entry)> {
        [Phase::Held, Phase::Queued]
            .into_iter()
            .find_map(|phase| Some((phase, self.get(phase, request)?)))
    }

    /// Why a lock with this token is not there any more, as far as that can still be seen. Only a
    /// later holder is evidence of a theft.
    pub(crate) fn why_gone(&self, of: FencingToken) -> Lost {
        let is_thief = |entry: &Entry| entry.grant().token > of && entry.mode == Mode::Exclusive;
        if self.held.values().any(is_thief) { Lost::Stolen } else { Lost::Removed }
    }

    /// Whether anybody holds the name.
    pub(crate) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// The waiting requests, in the order of the queue.
    pub(crate) fn queue(&self) -> impl Iterator<Item = &Entry> {
        self.queue.values()
    }

    /// All locks and requests.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Phase, &Entry)> {
        let held = self.held.values().map(|entry| (Phase::Held, entry));
        held.chain(self.queue.values().map(|entry| (Phase::Queued, entry)))
    }
}

impl Entry {
    /// The key of this entry, as a list shows it.
    pub(crate) fn to_key_value(&self, key: Vec<u8>) -> KeyValue {
        let &Self { made, written, lease, .. } = self;
        KeyValue { key, value: self.value.to_vec(), made, written, lease }
    }

    /// The grant, for a lock.
    pub(crate) fn grant(&self) -> Grant {
        Grant::marked(self.made, Value::mark(&self.value))
    }

    /// The revision that counts for the order of a request in the queue.
    pub(crate) fn order(&self) -> i64 {
        order(self.made, &self.value)
    }

    /// The order of a request in the queue: the revision that counts for it, and the place within
    /// that revision.
    pub(crate) fn place(&self) -> (i64, u64) {
        (self.order(), Value::place(&self.value))
    }

    /// What a transaction needs to remove this entry: the transaction deletes the key of the lock and the key
    /// of the request in the queue.
    pub(crate) fn ended(&self) -> Ended {
        Ended { id: None, request: self.request, mode: self.mode, only: None }
    }
}

/// The revision that counts for the order of a request that was created in the revision `made`.
pub(crate) fn order(made: i64, value: &[u8]) -> i64 {
    match Value::mark(value) {
        0 => made,
        mark => i64::try_from(mark).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests;
