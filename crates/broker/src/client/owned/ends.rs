//! How owned names and their locks end in other ways than by a release, and which locks are held.

use std::task::Waker;

use navlock_core::{ClientId, Lost};
use navlock_delegation::{GivenBack, Look};
use navlock_engine::{AgentId, RequestId};

use super::{
    maps::SlotIndex,
    slots::{HeldInSlot, Slots, Stage, Taken},
};

/// How the hold of this word was lost, if it was lost.
pub(super) fn lost_by(look: Look) -> Option<Lost> {
    // A theft counts first: a lock that was stolen was lost before it could be revoked.
    let revoked = || look.is_revoked().then_some(Lost::Disconnected);
    if look.is_stolen() { Some(Lost::Stolen) } else { revoked() }
}

impl Slots {
    /// To be called when the daemon has said that the lock of this request is lost. Adds the wakers
    /// to call to `wakers`.
    pub(in super::super) fn lose_one(
        &mut self,
        id: RequestId,
        lost: (Lost, Option<ClientId>),
        wakers: &mut Vec<Waker>,
    ) {
        let is_its = |taken: &Taken| taken.id == id && matches!(taken.stage, Stage::Owned(_));
        let found = self.in_use.iter().find(|(_, taken)| is_its(taken));
        if let Some((&index, _)) = found {
            self.lose(index, lost, wakers);
        }
    }

    /// Ends owned names, with the locks that are held in their slots.
    fn lose(&mut self, index: SlotIndex, lost: (Lost, Option<ClientId>), wakers: &mut Vec<Waker>) {
        if let Some(taken) = self.taken(index) {
            let note = self.notes.entry(taken).or_default();
            note.lost = Some(lost);
            wakers.append(&mut note.watchers);
        }
        self.free(index);
    }

    /// The ticket of a lock that was taken in the slot and is not released, lost or not.
    fn taken(&self, index: SlotIndex) -> Option<RequestId> {
        let look = self.maps.slot(index)?.word().look();
        let is_taken = matches!(self.in_use.get(&index)?.stage, Stage::Owned(_));
        let is_there = is_taken && (look.is_held() || look.is_lost());
        is_there.then(|| RequestId::from_parts(index, look.count()))
    }

    /// Ends all names and locks that an agent has here, but not its waiting requests. Adds the
    /// wakers to call to `wakers`.
    pub(in super::super) fn end_agent(&mut self, agent: AgentId, wakers: &mut Vec<Waker>) {
        for index in self.all(|taken| taken.agent == agent && taken.stage != Stage::Asked) {
            // A lock without a note has ended with its agent.
            if let Some(taken) = self.taken(index) {
                let note = self.notes.remove(&taken);
                wakers.extend(note.into_iter().flat_map(|note| note.watchers));
            }
            self.free(index);
        }
        // Buckets that are not used any more are removed, so that they take no room.
        self.names.retain(|_, names| !names.is_empty());
    }

    fn all(&self, wanted: impl Fn(&Taken) -> bool) -> Vec<SlotIndex> {
        let all = self.in_use.iter().filter(|(_, taken)| wanted(taken));
        all.map(|(index, _)| *index).collect()
    }

    /// Ends the locks of which `is_lost` says, for the request of their slot, that they are lost. Gives
    /// up all idle names, because there is no daemon any more that could take them back. Adds the
    /// wakers to call to `wakers`. Returns whether anything is left.
    pub(in super::super) fn lose_all(
        &mut self,
        is_lost: impl Fn(RequestId) -> bool,
        wakers: &mut Vec<Waker>,
    ) -> bool {
        self.give_back();
        let mut is_left = false;
        for index in self.all(|taken| matches!(taken.stage, Stage::Owned(_))) {
            let is_lost = self.in_use.get(&index).is_some_and(|taken| is_lost(taken.id));
            if is_lost {
                self.lose(index, (Lost::Disconnected, None), wakers);
            } else {
                is_left |= self.taken(index).is_some();
            }
        }
        is_left
    }

    /// Gives back all idle names. The other locks will be released by a message. Returns the
    /// requests to finish.
    pub(in super::super) fn give_back(&mut self) -> Vec<RequestId> {
        let mut finished = Vec::new();
        for index in self.all(|taken| taken.stage != Stage::Asked) {
            let Some(slot) = self.maps.slot(index) else { continue };
            let is_freed = slot.word().give_back() == GivenBack::Freed;
            // This includes slots that the daemon has taken back before, and slots that another
            // thread is about to give back.
            if is_freed || slot.word().look().is_free() {
                finished.extend(self.free(index));
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

    /// Does the same on a new connection, where requests are claimed without their slots. Returns
    /// the locks of the table that were lost without a message.
    pub(in super::super) fn come_back(
        &mut self,
        wakers: &mut Vec<Waker>,
    ) -> Vec<(RequestId, Lost)> {
        for index in self.all(|taken| taken.stage == Stage::Asked) {
            self.free(index);
        }
        // On a new connection, nothing is granted any more in the slots of earlier requests.
        self.answered(u64::MAX);
        self.give_back();
        let mut lost_first = Vec::new();
        for index in self.all(|_| true) {
            let look = self.maps.slot(index).map(|slot| slot.word().look());
            let Some(lost) = look.and_then(lost_by) else { continue };
            match self.in_use.get(&index) {
                Some(Taken { stage: Stage::First(_), id, .. }) => lost_first.push((*id, lost)),
                _ => self.lose(index, (lost, None), wakers),
            }
        }
        lost_first
    }

    /// How many names the client owns.
    pub(in super::super) fn count(&self) -> usize {
        let looks =
            self.in_use.keys().filter_map(|index| Some(self.maps.slot(*index)?.word().look()));
        let ours = looks.filter(|look| (look.is_held() || look.is_idle()) && !look.is_recalled());
        ours.count()
    }

    /// Whether any lock that was taken here is held.
    pub(in super::super) fn is_held(&self) -> bool {
        self.in_use.iter().any(|(index, taken)| {
            let is_owned = matches!(taken.stage, Stage::Owned(_));
            is_owned && self.maps.slot(*index).is_some_and(|slot| slot.word().look().is_held())
        })
    }

    /// The locks that were taken here and are held.
    pub(in super::super) fn held(&self) -> Vec<HeldInSlot> {
        let held = self.in_use.iter().filter_map(|(index, taken)| {
            let slot = self.maps.slot(*index)?;
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
