//! How owned names and their locks end in other ways than by a release, and which locks are held.

use std::task::Waker;

use navlock_core::{ClientId, Lost};
use navlock_delegation::{GivenBack, Look};
use navlock_engine::{AgentId, RequestId};

use super::{
    maps::{Maps, SlotIndex},
    slots::{HeldInSlot, Slots, Stage, Taken},
};

/// How the hold of this word was lost, if it was lost.
pub(super) fn lost_by(look: Look) -> Option<Lost> {
    // A theft counts first: a lock that was stolen was lost before it could be revoked.
    let revoked = || look.is_revoked().then_some(Lost::Disconnected);
    if look.is_stolen() { Some(Lost::Stolen) } else { revoked() }
}

impl Slots {
    /// The slot that was granted by this request, if the request itself is finished.
    pub(super) fn find(&self, id: RequestId) -> Option<SlotIndex> {
        let is_its = |taken: &Taken| taken.id == id && matches!(taken.stage, Stage::Owned(_));
        self.in_use.iter().find(|(_, taken)| is_its(taken)).map(|(index, _)| *index)
    }

    /// Ends owned names, with the locks that are held in their slots.
    pub(super) fn lose(
        &mut self,
        maps: &Maps,
        index: SlotIndex,
        lost: (Lost, Option<ClientId>),
        wakers: &mut Vec<Waker>,
    ) {
        if let Some(taken) = self.taken(maps, index) {
            let note = self.notes.entry(taken).or_default();
            note.lost = Some(lost);
            wakers.append(&mut note.watchers);
        }
        self.free(maps, index);
    }

    /// The ticket of a lock that was taken in the slot and is not released, lost or not.
    fn taken(&self, maps: &Maps, index: SlotIndex) -> Option<RequestId> {
        let look = maps.slot(index)?.word().look();
        let is_taken = matches!(self.in_use.get(&index)?.stage, Stage::Owned(_));
        let is_there = is_taken && (look.is_held() || look.is_lost());
        is_there.then(|| RequestId::from_parts(index, look.count()))
    }

    pub(super) fn end_agent(&mut self, maps: &Maps, agent: AgentId, wakers: &mut Vec<Waker>) {
        for index in self.all(|taken| taken.agent == agent && taken.stage != Stage::Asked) {
            // A lock without a note has ended with its agent.
            if let Some(taken) = self.taken(maps, index) {
                let note = self.notes.remove(&taken);
                wakers.extend(note.into_iter().flat_map(|note| note.watchers));
            }
            self.free(maps, index);
        }
        // Buckets that are not used any more are removed, so that they take no room.
        self.names.retain(|_, names| !names.is_empty());
    }

    fn all(&self, wanted: impl Fn(&Taken) -> bool) -> Vec<SlotIndex> {
        let all = self.in_use.iter().filter(|(_, taken)| wanted(taken));
        all.map(|(index, _)| *index).collect()
    }

    pub(super) fn lose_all(
        &mut self,
        maps: &Maps,
        is_lost: impl Fn(RequestId) -> bool,
        wakers: &mut Vec<Waker>,
    ) -> bool {
        self.give_back(maps);
        let mut is_left = false;
        for index in self.all(|taken| matches!(taken.stage, Stage::Owned(_))) {
            let is_lost = self.in_use.get(&index).is_some_and(|taken| is_lost(taken.id));
            if is_lost {
                self.lose(maps, index, (Lost::Disconnected, None), wakers);
            } else {
                is_left |= self.taken(maps, index).is_some();
            }
        }
        is_left
    }

    pub(super) fn give_back(&mut self, maps: &Maps) -> Vec<RequestId> {
        let mut finished = Vec::new();
        for index in self.all(|taken| taken.stage != Stage::Asked) {
            let Some(slot) = maps.slot(index) else { continue };
            let is_freed = slot.word().give_back() == GivenBack::Freed;
            // This includes slots that the daemon has taken back before, and slots that another
            // thread is about to give back.
            if is_freed || slot.word().look().is_free() {
                finished.extend(self.free(maps, index));
            }
        }
        for names in self.names.values_mut() {
            names.retain(|_, known| {
                known.slots.clear();
                known.is_awaited()
            });
        }
        finished
    }

    pub(super) fn come_back(
        &mut self,
        maps: &Maps,
        wakers: &mut Vec<Waker>,
    ) -> Vec<(RequestId, Lost)> {
        for index in self.all(|taken| taken.stage == Stage::Asked) {
            self.free(maps, index);
        }
        // On a new connection, nothing is granted any more in the slots of earlier requests.
        self.answered(maps, u64::MAX);
        self.give_back(maps);
        let mut lost_first = Vec::new();
        for index in self.all(|_| true) {
            let look = maps.slot(index).map(|slot| slot.word().look());
            let Some(lost) = look.and_then(lost_by) else { continue };
            match self.in_use.get(&index) {
                Some(Taken { stage: Stage::First(_), id, .. }) => lost_first.push((*id, lost)),
                _ => self.lose(maps, index, (lost, None), wakers),
            }
        }
        lost_first
    }

    pub(super) fn count(&self, maps: &Maps) -> usize {
        let looks = self.in_use.keys().filter_map(|index| Some(maps.slot(*index)?.word().look()));
        let ours = looks.filter(|look| (look.is_held() || look.is_idle()) && !look.is_recalled());
        ours.count()
    }

    pub(super) fn is_held(&self, maps: &Maps) -> bool {
        self.in_use.iter().any(|(index, taken)| {
            let is_owned = matches!(taken.stage, Stage::Owned(_));
            is_owned && maps.slot(*index).is_some_and(|slot| slot.word().look().is_held())
        })
    }

    pub(super) fn held(&self, maps: &Maps) -> Vec<HeldInSlot> {
        let held = self.in_use.iter().filter_map(|(index, taken)| {
            let slot = maps.slot(*index)?;
            let look = slot.word().look();
            let is_held = matches!(taken.stage, Stage::Owned(_)) && look.is_held();
            is_held.then(|| HeldInSlot {
                agent: taken.agent,
                id: taken.id,
                name: taken.name.clone(),
                mode: taken.mode,
                token: slot.token(look.count()),
                since: slot.since(),
            })
        });
        held.collect()
    }
}
