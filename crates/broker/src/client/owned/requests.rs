//! The calls by which the client's table uses the owned names.

use std::task::Waker;

use navlock_core::{ClientId, Lost, Mode, ResourceName};
use navlock_delegation::Released;
use navlock_engine::{AgentId, RequestId};

use super::{
    Owned,
    maps::SlotIndex,
    slots::{Asked, Began, HeldInSlot, Hold, Note},
};

impl Owned {
    /// To be called when a request is about to be made. Returns its slot, and what has to be sent
    /// before it.
    pub(in super::super) fn begin(&self, asked: &Asked<'_>) -> Began {
        let mut slots = self.slots();
        // Without the hint, the agent's next take has to look here, and finds that a request of the agent
        // waits for the name. Other agents could overtake this request by a take in their own slots, so
        // these slots are given back below.
        self.hints.clear(asked.agent, asked.name);
        slots.begin(&self.maps, asked)
    }

    /// To be called when a request does not wait any more that was counted as waiting when it
    /// [began](Self::begin).
    pub(in super::super) fn end_wait(
        &self,
        bucket: &str,
        agent: AgentId,
        name: &ResourceName,
        mode: Mode,
    ) {
        self.slots().end_wait(bucket, agent, name, mode);
    }

    /// To be called when a request was granted in its slot. Returns its hold; `None` if the slot
    /// does not say that it was granted.
    pub(in super::super) fn granted(&self, index: SlotIndex) -> Option<Hold> {
        self.slots().granted(&self.maps, index)
    }

    /// To be called when a request was answered without its slot.
    pub(in super::super) fn unused(&self, index: SlotIndex) {
        self.slots().free(&self.maps, index);
    }

    /// To be called when a request with a slot was aborted. Its grant may still be on its way. Once a
    /// request is answered that was made after this call, the grant is not on its way any more. Such
    /// later requests have serial numbers from `next_serial` on.
    pub(in super::super) fn aborted(&self, index: SlotIndex, next_serial: u64) {
        self.slots().abort(index, next_serial);
    }

    /// To be called when the request with this serial number was answered.
    pub(in super::super) fn answered(&self, serial: u64) {
        self.slots().answered(&self.maps, serial);
    }

    /// Releases the first hold of a slot. Returns whether the client still owns the name; if not, the
    /// slot is free and the daemon has to be told.
    pub(in super::super) fn finish_first(&self, hold: Hold) -> bool {
        let released = self.slot(hold.index).map(|slot| slot.word().release(hold.count));
        let mut slots = self.slots();
        let is_kept = released == Some(Released::Kept);
        if is_kept {
            slots.first_is_over(hold);
        } else {
            slots.end_first(&self.maps, hold);
        }
        is_kept
    }

    /// Frees a slot whose first hold is lost.
    pub(in super::super) fn end_first(&self, hold: Hold) {
        self.slots().end_first(&self.maps, hold);
    }

    /// To be called when a lock that was taken here is released, and the client no longer owns its
    /// name. Returns the request that the daemon has to be told to finish, if this was not done yet,
    /// and the note of the lock.
    pub(in super::super) fn finish(&self, taken: RequestId) -> (Option<RequestId>, Option<Note>) {
        let mut slots = self.slots();
        let note = slots.notes.remove(&taken);
        self.count_notes(&slots);
        (slots.finish(&self.maps, taken), note)
    }

    /// The serial number of the request for which the slot was granted, by which the daemon knows
    /// the lock.
    pub(in super::super) fn serial(&self, taken: RequestId) -> Option<u64> {
        let index = u32::try_from(taken.index()).ok()?;
        self.slots().in_use.get(&index).map(|taken| taken.id.serial())
    }

    /// To be called when the daemon has said that the lock of this request is lost. Adds the wakers
    /// to call to `wakers`.
    pub(in super::super) fn lose_one(
        &self,
        id: RequestId,
        lost: (Lost, Option<ClientId>),
        wakers: &mut Vec<Waker>,
    ) {
        let mut slots = self.slots();
        if let Some(index) = slots.find(id) {
            slots.lose(&self.maps, index, lost, wakers);
            self.count_notes(&slots);
        }
    }

    /// Ends all names and locks that an agent has here, but not its waiting requests. Adds the
    /// wakers to call to `wakers`.
    pub(in super::super) fn end_agent(&self, agent: AgentId, wakers: &mut Vec<Waker>) {
        let mut slots = self.slots();
        slots.end_agent(&self.maps, agent, wakers);
        self.count_notes(&slots);
    }

    /// Ends the locks of which `is_lost` says, for the request of their slot, that they are lost. Gives
    /// up all idle names, because there is no daemon any more that could take them back. Adds the
    /// wakers to call to `wakers`. Returns whether anything is left.
    pub(in super::super) fn lose(
        &self,
        is_lost: impl Fn(RequestId) -> bool,
        wakers: &mut Vec<Waker>,
    ) -> bool {
        let mut slots = self.slots();
        let is_left = slots.lose_all(&self.maps, is_lost, wakers);
        self.count_notes(&slots);
        is_left
    }

    /// Gives back all idle names. The other locks will be released by a message. Returns the
    /// requests to finish.
    pub(in super::super) fn give_back(&self) -> Vec<RequestId> {
        self.slots().give_back(&self.maps)
    }

    /// Does the same on a new connection, where requests are claimed without their slots. Returns
    /// the locks of the table that were lost without a message.
    pub(in super::super) fn come_back(&self, wakers: &mut Vec<Waker>) -> Vec<(RequestId, Lost)> {
        let mut slots = self.slots();
        let lost = slots.come_back(&self.maps, wakers);
        self.count_notes(&slots);
        lost
    }

    /// How many names the client owns.
    pub(in super::super) fn count(&self) -> usize {
        self.slots().count(&self.maps)
    }

    /// Whether any lock that was taken here is held.
    pub(in super::super) fn is_held(&self) -> bool {
        self.slots().is_held(&self.maps)
    }

    /// The locks that were taken here and are held.
    pub(in super::super) fn held(&self) -> Vec<HeldInSlot> {
        self.slots().held(&self.maps)
    }
}
