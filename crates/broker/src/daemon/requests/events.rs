//! What lookers are told of requests, and what clients are told of deadlocks.

use std::{
    collections::HashSet,
    ops::Range,
    sync::Arc,
    task::{Context, Waker},
};

use foldhash::quality::RandomState;
use navlock_core::{
    ResourceName,
    look::{self, Change, LockId, LockName},
};
use navlock_engine::{FencingToken, Patience, RequestId};
use navlock_wire::{MAX_INSIDE, Moment};

use super::{
    super::{
        cycles::{Cycles, InCycle, Names, Nested},
        outcome::Outcome,
    },
    Entry, RequestOwner, Requests, Shown, Stage,
    map_place::MapPlace,
};

impl Requests {
    /// Notes that this request was made inside a lock. Does this only if the request still waits,
    /// because a lock waits for nothing.
    pub(in super::super) fn put_inside(&mut self, id: RequestId, lock: LockId) {
        let waits = |entry: &Entry| matches!(entry.stage, Stage::Pending(_));
        if !self.entries.get(&id).is_some_and(waits) {
            return;
        }
        let inside = self.insides.entry(id).or_default();
        if inside.len() >= MAX_INSIDE || inside.contains(&lock) {
            return;
        }
        // No certain cycle leads by way of what the request is only perhaps inside of, and other machines are not
        // told of that.
        let is_certain = |lock: LockId| !lock.is_some_of();
        if is_certain(lock) {
            if !inside.iter().any(|known| is_certain(*known)) {
                self.nested.push(id);
            }
            self.lookers.nested.notify_one();
        }
        inside.push(lock);
        self.tell(id);
    }

    /// Whether this request gives way in a deadlock.
    pub(in super::super) fn gives_way(&self, id: RequestId) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.patience == Patience::GivesWay)
    }

    /// Notes how long this request waits.
    pub(in super::super) fn note_patience(&mut self, id: RequestId, patience: Patience) {
        if let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.patience < patience) {
            entry.patience = patience;
            if let Stage::Pending(request) = &entry.stage {
                // If other machines share the locks, they need this for their requests that wait
                // behind this one.
                request.note_patience(patience);
                self.tell(id);
            }
        }
    }

    /// Adds the names for which requests wait inside locks.
    pub(in super::super) fn nested(&mut self, nested: &mut Nested) {
        let (entries, insides) = (&self.entries, &self.insides);
        self.nested.retain(|id| {
            let waits = |entry: &&Entry| matches!(entry.stage, Stage::Pending(_));
            let Some(entry) = entries.get(id).filter(waits) else { return false };
            entry.name().is_some_and(|name| {
                let around = insides.get(id).into_iter().flatten();
                nested.add(&entry.of.bucket, name, around.copied());
                true
            })
        });
        if self.nested.is_empty() {
            self.nested = Vec::new();
        }
    }

    /// Tells the reach inside which locks requests wait. A lock that it does not have yet is of no use to it, so it
    /// is told again and again.
    pub(in super::super) fn tell_insides(&self) {
        for id in &self.nested {
            let Some(Entry { stage: Stage::Pending(request), .. }) = self.entries.get(id) else {
                continue;
            };
            let inside = self.insides.get(id).into_iter().flatten();
            inside.filter(|lock| !lock.is_some_of()).for_each(|lock| request.put_inside(*lock));
        }
    }

    /// Adds the names of those of these locks that this client holds.
    pub(in super::super) fn names_of(
        &self,
        locks: &HashSet<LockId, RandomState>,
        names: &mut Names,
    ) {
        for (id, entry) in &self.entries {
            let lock = entry.of.id(*id);
            if let (Stage::Held(guard, _), true) = (&entry.stage, locks.contains(&lock)) {
                names.add(&entry.of.bucket, guard.name());
            }
        }
    }

    /// Notes which of the requests are part of these cycles, for the client to be told.
    pub(in super::super) fn tell_cycles(&mut self, cycles: &Cycles) {
        for (id, entry) in &self.entries {
            let request = entry.of.id(*id);
            let waits = matches!(entry.stage, Stage::Pending(_));
            if let Some(told) = cycles.requests.get(&request).filter(|_| waits) {
                self.cycles.push_back((*id, told.clone()));
            }
        }
        self.wake();
    }

    /// Whether the client still has to be told of a cycle.
    pub(in super::super) fn is_in_cycle(&self) -> bool {
        !self.cycles.is_empty()
    }

    /// The next request in a cycle of which the client has to be told, if the request still waits.
    pub(in super::super) fn next_in_cycle(&mut self) -> Option<(RequestId, InCycle)> {
        loop {
            let (id, told) = self.cycles.pop_front()?;
            let is_there = self.entries.get(&id);
            if is_there.is_some_and(|entry| matches!(entry.stage, Stage::Pending(_))) {
                return Some((id, told));
            }
        }
    }

    /// Tells lookers the present state of this request.
    pub(in super::super) fn tell(&self, id: RequestId) {
        if let Some(entry) = self.entries.get(&id).filter(|_| self.lookers.are_there()) {
            if let Some((at, change)) = self.change(id, entry) {
                self.lookers.tell_at(|| at, || change);
            }
        }
    }

    /// The locks of this name that the engine counts as held. Each has the id and token that lookers are
    /// told, or `None` if the client owns the name and does not hold the lock.
    pub(in super::super) fn held<'a>(
        &'a self,
        bucket: &'a str,
        name: &'a ResourceName,
    ) -> impl Iterator<Item = Option<(LockId, FencingToken)>> + 'a {
        self.entries.iter().filter_map(move |(id, entry)| entry.held(*id, bucket, name))
    }

    /// The requests and locks of these names, in the form that lookers are told.
    pub(in super::super) fn changes(
        &self,
        wanted: impl Fn(&str, &ResourceName) -> bool,
    ) -> impl Iterator<Item = (Moment, Change)> {
        self.changes_at(0..self.entries.len(), wanted)
    }

    /// As [`changes`](Self::changes), for the entries at these places.
    ///
    /// A new entry gets the last place. When an entry goes, the last entry moves to its place. So a reader
    /// that goes from the last place down, however slowly, finds every entry that is there all the time,
    /// and perhaps some of them twice.
    pub(in super::super) fn changes_at(
        &self,
        places: Range<usize>,
        wanted: impl Fn(&str, &ResourceName) -> bool,
    ) -> impl Iterator<Item = (Moment, Change)> {
        let entries = places.filter_map(|place| self.entries.get_index(place));
        entries.filter_map(move |(id, entry)| {
            let is_wanted = wanted(&entry.of.bucket, entry.shown()?.name);
            is_wanted.then(|| self.change(*id, entry)).flatten()
        })
    }

    /// This request or lock in the form that lookers are told, and since when it has this state.
    fn change(&self, id: RequestId, entry: &Entry) -> Option<(Moment, Change)> {
        let inside = self.insides.get(&id).cloned().unwrap_or_default();
        entry.change(id, self.whys.get(&id).map(Arc::clone), inside)
    }

    /// Tells lookers that this agent has asked for a lock only if it is available, and that the
    /// lock was not available.
    pub(in super::super) fn tell_unavailable(&self, of: &RequestOwner, name: &ResourceName) {
        self.lookers.tell(|| Change::Unavailable { name: of.name(name), agent: of.client_id });
    }

    /// Tells lookers that this was released or aborted.
    pub(super) fn tell_finished(&self, id: RequestId, entry: &Entry) {
        let Some(name) = entry.name().filter(|_| self.lookers.are_there()) else { return };
        let (name, id) = (entry.of.name(name), entry.of.id(id));
        self.lookers.tell(|| match (&entry.stage, &entry.place) {
            (Stage::Held(..), MapPlace::In(delegation)) if !delegation.was_seen_held() => {
                Change::Recalled { name, id }
            }
            (Stage::Held(..), _) => Change::Released { name, id },
            _ => Change::Aborted { name, id },
        });
    }

    /// Tells lookers that all requests and locks end with their client.
    pub(in super::super) fn tell_all_finished(&self) {
        if self.lookers.are_there() {
            self.entries.iter().for_each(|(id, entry)| self.tell_finished(*id, entry));
        }
    }

    /// Tells lookers that this has ended with this outcome.
    pub(super) fn tell_over(
        &self,
        id: RequestId,
        entry: &Entry,
        name: Option<&ResourceName>,
        outcome: Option<&Outcome>,
    ) {
        let Some(name) = name else { return };
        let (name, id) = (entry.of.name(name), entry.of.id(id));
        self.lookers.tell(|| match outcome {
            Some(Outcome::Lost(how, by)) => Change::Lost { name, id, how: *how, by: *by },
            _ => Change::Aborted { name, id },
        });
    }
}

impl RequestOwner {
    fn name(&self, name: &ResourceName) -> LockName {
        LockName::new(Arc::clone(&self.bucket), name.clone())
    }

    /// The id by which all know a request or lock of this agent.
    pub(in super::super) fn id(&self, id: RequestId) -> LockId {
        LockId { client_id: self.client_id, serial: id.serial() }
    }
}

impl Entry {
    /// The entry in the form that lookers are told, and since when it has this state. The lock is for
    /// `why`, if that is known, and was asked for `inside` these locks.
    fn change(
        &self,
        id: RequestId,
        why: Option<Arc<str>>,
        inside: Vec<LockId>,
    ) -> Option<(Moment, Change)> {
        let Shown { name, mode, since, token, delegation, .. } = self.shown()?;
        let name = self.of.name(name);
        let mut entry = look::Entry::new(self.of.id(id), mode);
        (entry.token, entry.why, entry.inside) = (token, why, inside);
        if token.is_none() {
            entry.patience = self.patience;
        }
        let Some(delegation) = delegation else {
            let change = match token {
                Some(_) => Change::Granted { name, entry },
                None => Change::Requested { name, entry },
            };
            return Some((since, change));
        };
        let seen = delegation.seen()?;
        let mut at = since;
        if let Some((since, token)) = seen.hold {
            (at, entry.token) = (since, Some(token));
        }
        entry.taken = seen.taken;
        let change = if seen.taken == 0 && seen.is_held {
            Change::Granted { name, entry }
        } else {
            Change::Owned { name, entry, held: seen.is_held }
        };
        Some((at, change))
    }

    /// See [`Requests::held`]. The outer `None` says that this is no lock of that name, or is lost
    /// already.
    #[expect(clippy::option_option, reason = "it is what the engine has, and what is held of that")]
    fn held(
        &self,
        id: RequestId,
        bucket: &str,
        name: &ResourceName,
    ) -> Option<Option<(LockId, FencingToken)>> {
        let Stage::Held(guard, token) = &self.stage else { return None };
        if guard.name() != name || *self.of.bucket != *bucket {
            return None;
        }
        // The lock is polled with the request's usual waker, because only the last waker is woken.
        let waker = Waker::from(Arc::clone(&self.waker));
        if guard.poll_lost(&Context::from_waker(&waker)).is_ready() {
            return None;
        }
        let id = self.of.id(id);
        let MapPlace::In(delegation) = &self.place else { return Some(Some((id, *token))) };
        let hold = delegation.hold();
        Some(hold.map(|hold| (id, hold.map_or(*token, |(_, token)| token))))
    }

    /// The name; `None` once the request has failed.
    pub(super) fn name(&self) -> Option<&ResourceName> {
        match &self.stage {
            Stage::Pending(request) => Some(request.pending()?.0),
            Stage::Held(guard, _) => Some(guard.name()),
            Stage::Over => None,
        }
    }
}
