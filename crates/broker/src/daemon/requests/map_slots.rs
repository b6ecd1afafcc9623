//! Which of a client's requests stand in slots of its map.

use std::mem;

use navlock_delegation::Recalled;
use navlock_engine::RequestId;
use navlock_wire::{Agent, Slot};

use super::{super::delegations::Delegation, Entry, Requests, Shown, map_place::MapPlace};

impl Requests {
    /// Notes the slot in which the client wants the lock to stand.
    pub(in super::super) fn want(&mut self, id: RequestId, slot: Slot) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.place = MapPlace::Wanted(slot);
        }
    }

    /// The slot in which the client wants the request to stand once it is a lock.
    pub(in super::super) fn wanted(&self, id: RequestId) -> Option<Slot> {
        match self.entries.get(&id)?.place {
            MapPlace::Wanted(slot) => Some(slot),
            _ => None,
        }
    }

    /// What is shown of this request.
    pub(in super::super) fn of(&self, id: RequestId) -> Option<Shown<'_>> {
        self.entries.get(&id)?.shown()
    }

    /// Notes that the lock stands in this slot, or in none.
    pub(in super::super) fn put(&mut self, id: RequestId, place: Option<Delegation>) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.place = place.map_or(MapPlace::Nowhere, |place| MapPlace::In(place.into()));
        }
    }

    /// Takes the locks of this agent, or of all agents, out of their slots: the client can neither
    /// hold these locks there nor take them any more.
    pub(in super::super) fn take_back(&mut self, agent: Option<Agent>) {
        for entry in self.entries.values_mut() {
            if agent.is_none_or(|agent| agent == entry.of.agent) {
                entry.place = MapPlace::Nowhere;
            }
        }
    }

    /// Recalls all locks in slots, so that the client takes none without asking. Releases the locks that
    /// the client does not hold.
    pub(in super::super) fn release_idle(&mut self) {
        let is_free = |entry: &Entry| match &entry.place {
            MapPlace::In(delegation) => delegation.recall() == Recalled::Free,
            _ => false,
        };
        let free = self.entries.iter().filter(|(_, entry)| is_free(entry));
        for id in free.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.finish(id);
        }
    }

    /// Takes the locks out of their slots. The client keeps the locks.
    pub(in super::super) fn leave_slots(&mut self) {
        for entry in self.entries.values_mut() {
            if let MapPlace::In(delegation) = mem::replace(&mut entry.place, MapPlace::Nowhere) {
                delegation.leave();
            }
        }
    }
}

impl Entry {
    /// Whether the lock stands in a slot, from which the client can take it, and the client does
    /// not hold it.
    pub(super) fn is_idle(&self) -> bool {
        matches!(&self.place, MapPlace::In(delegation) if !delegation.is_held())
    }
}
