//! Which request each slot of the map is for, and which names can be taken in the map.

use std::{collections::HashMap, mem, sync::Arc, task::Waker};

use foldhash::fast::{FixedState, RandomState};
use navlock_core::{ClientId, Lost, Mode, ResourceName, host::RequestKind};
use navlock_delegation::{GivenBack, OwnerMap, Slot};
use navlock_engine::{AgentId, RequestId};
use navlock_wire::Moment;

use super::{
    maps::{self, Maps, SlotIndex},
    names::Name,
};

/// A request that is about to be made.
pub(in super::super) struct Asked<'a> {
    pub(in super::super) id: RequestId,
    pub(in super::super) agent: AgentId,
    pub(in super::super) client_id: ClientId,
    pub(in super::super) bucket: Arc<str>,
    pub(in super::super) name: &'a ResourceName,
    pub(in super::super) kind: RequestKind,
    /// Whether the daemon takes requests in slots.
    pub(in super::super) in_slot: bool,
}

/// What has to be sent with a request that is about to be made.
#[derive(Default)]
pub(in super::super) struct Began {
    /// The slot in which the request is to be granted.
    pub(in super::super) slot: Option<SlotIndex>,
    /// Whether the request is counted as waiting, so that nothing overtakes it. If it is,
    /// [`Slots::end_wait`] must follow.
    pub(in super::super) is_counted: bool,
    /// The requests that the daemon must be told to finish before this request is sent.
    pub(in super::super) finished: Vec<RequestId>,
    /// Whether the map should have more slots.
    pub(in super::super) wants_room: bool,
}

/// The first hold in a slot: the hold of the request for which the slot was granted.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Hold {
    pub(in super::super) index: SlotIndex,
    pub(in super::super) count: u64,
}

/// A lock that was taken in the map, with what a new daemon is told of it.
pub(in super::super) struct HeldInSlot {
    pub(in super::super) agent: AgentId,
    pub(in super::super) id: RequestId,
    pub(in super::super) name: ResourceName,
    pub(in super::super) mode: Mode,
    pub(in super::super) token: u64,
    pub(in super::super) since: Moment,
}

/// What is known of a lock that was taken in the map, beside its word.
#[derive(Default)]
pub(in super::super) struct Note {
    pub(super) watchers: Vec<Waker>,
    pub(super) lost: Option<(Lost, Option<ClientId>)>,
}

/// The slots of all maps.
#[derive(Default)]
pub(in super::super) struct Slots {
    pub(super) maps: Arc<Maps>,
    /// The names that are owned or waited for: by bucket, then by name.
    pub(super) names: HashMap<Arc<str>, HashMap<ResourceName, Name, RandomState>, RandomState>,
    /// The slots that are in use. The broker hears of them in an order that does not change from run to run.
    pub(super) in_use: HashMap<SlotIndex, Taken, FixedState>,
    /// Notes on locks that were taken and are not released, by ticket.
    pub(super) notes: HashMap<RequestId, Note, RandomState>,
    /// The map in use, if there is one.
    pub(super) generation: Option<usize>,
    next_generation: usize,
    /// The slots of the map in use that are not in use themselves.
    free: Vec<u32>,
    /// Slots of requests that were aborted, and that may still be granted there. Beside each slot
    /// is a serial number. An answer to the request with this number, or to a later request, shows
    /// that there was no such grant. The slots are in the order of these numbers.
    unsettled: Vec<(u64, SlotIndex)>,
    /// How many slots the map in use has.
    many: u32,
    /// The slot at which the next search for a name that can be given back begins.
    next_scan: u32,
    /// How many requests get no slot before the next such search.
    scan_pause: u32,
    /// Whether more slots were asked for and are not there yet. They may never be.
    is_growing: bool,
}

/// A slot that is in use.
pub(super) struct Taken {
    pub(super) agent: AgentId,
    pub(super) bucket: Arc<str>,
    pub(super) name: ResourceName,
    pub(super) mode: Mode,
    /// The request for which it was reserved.
    pub(super) id: RequestId,
    pub(super) stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The request is waiting.
    Asked,
    /// The request was granted as the hold of this number, and is not finished yet.
    First(u64),
    /// The request was granted as the hold of this number, and is finished. Later holds were taken
    /// in the map.
    Owned(u64),
}

impl Slots {
    /// The slot in which an agent can take this name in this mode.
    pub(super) fn takeable(
        &self,
        bucket: &str,
        agent: AgentId,
        name: &ResourceName,
        mode: Mode,
    ) -> impl Iterator<Item = SlotIndex> {
        let known = self.names.get(bucket).and_then(|names| names.get(name));
        let known = known.filter(|known| known.admits(agent, mode));
        let slots = known.map_or(&[][..], |known| &known.slots).iter().copied();
        slots.filter(move |index| {
            let is_its = |taken: &Taken| taken.agent == agent && taken.mode == mode;
            self.in_use.get(index).is_some_and(is_its)
        })
    }

    /// See [`Owned::begin`](super::Owned::begin).
    pub(super) fn begin(&mut self, asked: &Asked<'_>) -> Began {
        let mut began = Began::default();
        self.settle(asked, &mut began.finished);
        if asked.in_slot && Slot::fits(&asked.bucket, asked.name) {
            began.slot = self.reserve(asked, &mut began);
        }
        if let Some(known) = self.name_mut(&asked.bucket, asked.name) {
            known.begin_wait(asked.agent, asked.kind.mode());
            began.is_counted = true;
        } else if began.slot.is_some() {
            let mut known = Name::default();
            known.begin_wait(asked.agent, asked.kind.mode());
            let names = self.names.entry(Arc::clone(&asked.bucket)).or_default();
            names.insert(asked.name.clone(), known);
            began.is_counted = true;
        }
        began
    }

    fn name_mut(&mut self, bucket: &str, name: &ResourceName) -> Option<&mut Name> {
        self.names.get_mut(bucket)?.get_mut(name)
    }

    /// Gives back the slots of this name in which a take could overtake this request. This includes
    /// slots of other agents, because such an agent may take the name before the daemon reads the
    /// request.
    fn settle(&mut self, asked: &Asked<'_>, finished: &mut Vec<RequestId>) {
        let names = self.names.get_mut(&asked.bucket);
        let Some(known) = names.and_then(|names| names.get_mut(asked.name)) else {
            return;
        };
        // Shared locks do not get in each other's way.
        let is_shared = asked.kind.mode() == Mode::Shared;
        let is_reader = |taken: &Taken| taken.mode == Mode::Shared;
        let (kept, left): (Vec<_>, Vec<_>) =
            mem::take(&mut known.slots).into_iter().partition(|index| {
                self.maps.slot(*index).is_some_and(|slot| {
                    let look = slot.word().look();
                    let stays = is_shared && self.in_use.get(index).is_some_and(is_reader);
                    stays && !look.is_recalled() && (look.is_held() || look.is_idle())
                })
            });
        known.slots = kept;
        for index in left {
            let Some(slot) = self.maps.slot(index) else { continue };
            // A lock that is held will be released by a message. If a lock is lost, a message will
            // say so.
            if slot.word().give_back() == GivenBack::Freed || slot.word().look().is_free() {
                finished.extend(self.free(index));
            }
        }
    }

    /// Reserves a slot for a request, and describes the request in it.
    fn reserve(&mut self, asked: &Asked<'_>, began: &mut Began) -> Option<SlotIndex> {
        let generation = self.generation?;
        // This is early, because a request that comes before there is room gets no slot: if the client is
        // stopped then, no next daemon knows of the lock.
        if self.free.len() <= self.many as usize / 2 {
            began.wants_room = !mem::replace(&mut self.is_growing, true);
        }
        if self.free.is_empty() {
            began.finished.extend(self.evict(generation));
        }
        let index = maps::index(generation, self.free.pop()?);
        let slot = self.maps.slot(index)?;
        if !slot.word().look().is_free() {
            // Nothing can be granted in this slot any more.
            slot.word().clear();
        }
        let (agent, mode) = (asked.agent, asked.kind.mode());
        let number = u32::try_from(agent.index()).ok()?;
        let client_id = asked.client_id.to_bytes();
        if !slot.describe(&asked.bucket, asked.name, mode, number, client_id, asked.id) {
            self.free.push(maps::place(index).1);
            return None;
        }
        let (bucket, name, id) = (Arc::clone(&asked.bucket), asked.name.clone(), asked.id);
        self.in_use.insert(index, Taken { agent, bucket, name, mode, id, stage: Stage::Asked });
        Some(index)
    }

    /// Gives back a name that nobody holds, so that its slot becomes free. Returns the request that
    /// has to be finished for this.
    fn evict(&mut self, generation: usize) -> Option<RequestId> {
        if let Some(rested) = self.scan_pause.checked_sub(1) {
            self.scan_pause = rested;
            return None;
        }
        for _ in 0..self.many {
            let index = maps::index(generation, self.next_scan);
            self.next_scan = (self.next_scan + 1) % self.many;
            let is_owned = |taken: &Taken| matches!(taken.stage, Stage::Owned(_));
            if !self.in_use.get(&index).is_some_and(is_owned) {
                continue;
            }
            let Some(slot) = self.maps.slot(index) else { continue };
            let look = slot.word().look();
            let is_unused = look.is_idle() && slot.word().give_back() == GivenBack::Freed;
            // If the word is free already, the daemon has taken the name back.
            if is_unused || look.is_free() {
                return self.free(index);
            }
        }
        // FAST: if all slots are held, not every further request looks at all of them.
        self.scan_pause = self.many;
        None
    }

    /// Frees a slot. Returns the request for which it was granted.
    pub(in super::super) fn free(&mut self, index: SlotIndex) -> Option<RequestId> {
        let Taken { bucket, name, id, .. } = self.in_use.remove(&index)?;
        if let Some(slot) = self.maps.slot(index) {
            slot.word().clear();
        }
        self.leave_name(&bucket, &name, index);
        self.put_back(index);
        Some(id)
    }

    fn put_back(&mut self, index: SlotIndex) {
        let (generation, slot) = maps::place(index);
        if self.generation == Some(generation) {
            self.free.push(slot);
        }
    }

    fn leave_name(&mut self, bucket: &str, name: &ResourceName, index: SlotIndex) {
        self.change_name(bucket, name, |known| known.slots.retain(|&other| other != index));
    }

    /// To be called when a request does not wait any more that was counted as waiting when it
    /// [began](Began::is_counted).
    pub(in super::super) fn end_wait(
        &mut self,
        bucket: &str,
        agent: AgentId,
        name: &ResourceName,
        mode: Mode,
    ) {
        self.change_name(bucket, name, |known| known.end_wait(agent, mode));
    }

    /// Changes the entry of a name, and removes the entry if it is empty afterwards.
    fn change_name(&mut self, bucket: &str, name: &ResourceName, change: impl FnOnce(&mut Name)) {
        let Some(names) = self.names.get_mut(bucket) else { return };
        let Some(known) = names.get_mut(name) else { return };
        change(known);
        if known.slots.is_empty() && !known.is_awaited() {
            names.remove(name);
        }
    }

    /// To be called when a request with a slot was aborted. Its grant may still be on its way. Once a
    /// request is answered that was made after this call, the grant is not on its way any more. Such
    /// later requests have serial numbers from `next_serial` on.
    pub(in super::super) fn abort(&mut self, index: SlotIndex, next_serial: u64) {
        if let Some(Taken { bucket, name, .. }) = self.in_use.remove(&index) {
            self.leave_name(&bucket, &name, index);
            // The daemon may be killed before it hears of this.
            if let Some(slot) = self.maps.slot(index) {
                slot.renounce();
            }
            self.unsettled.push((next_serial, index));
        }
    }

    /// To be called when the request with this serial number was answered.
    pub(in super::super) fn answered(&mut self, serial: u64) {
        // FAST: mostly there are no such slots.
        let clear = self.unsettled.iter().take_while(|(since, _)| *since <= serial).count();
        for (_, index) in self.unsettled.drain(..clear).collect::<Vec<_>>() {
            if let Some(slot) = self.maps.slot(index) {
                slot.word().clear();
            }
            self.put_back(index);
        }
    }

    /// Whether any lock stands in a map that was [retired](Self::retire), while there is no other map.
    pub(in super::super) fn has_old(&self) -> bool {
        self.generation.is_none() && !self.in_use.is_empty()
    }

    /// Sets the map of the file that stands now. Returns whether there was room for one more map.
    pub(in super::super) fn set_map(&mut self, map: OwnerMap) -> bool {
        let (generation, slots) = (self.next_generation, map.slots());
        let is_put = self.maps.put(generation, map);
        if is_put {
            self.generation = Some(generation);
            self.next_generation += 1;
            self.grown(slots);
        }
        is_put
    }

    /// Notes that the map has this many slots now.
    pub(super) fn grown(&mut self, slots: u32) {
        // The slots are in reverse order, so that the first slots are used first.
        let new = (self.many..slots).rev();
        self.free.splice(0..0, new);
        self.is_growing = slots == self.many;
        (self.many, self.scan_pause) = (slots, 0);
    }

    /// Notes that the client's file is another one from here on, which is no map.
    pub(in super::super) fn retire(&mut self) {
        self.generation = None;
        self.free.clear();
        self.unsettled.clear();
        (self.many, self.next_scan, self.scan_pause) = (0, 0, 0);
    }
}
