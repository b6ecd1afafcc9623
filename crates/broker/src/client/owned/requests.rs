//! What the table of the client asks of the names that are owned.

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
    /// A request is about to be made. Where, and what to say before it.
    pub(in super::super) fn begin(&self, asked: &Asked<'_>) -> Began {
        let mut slots = self.slots();
        // From here on the agent looks whether anything of it waits for the name: it may know where it was
        // found although it has it no more, and come to have it there again. What others have, and would
        // overtake this with, is taken back.
        self.hints.clear(asked.agent, asked.name);
        slots.begin(&self.maps, asked)
    }

    /// A request that was counted at its [beginning](Self::begin) waits no more.
    pub(in super::super) fn end_wait(
        &self,
        bucket: &str,
        agent: AgentId,
        name: &ResourceName,
        mode: Mode,
    ) {
        self.slots().end_wait(bucket, agent, name, mode);
    }

    /// A request was granted in its slot. The hold that it is; `None` if the slot does not say so.
    pub(in super::super) fn granted(&self, index: SlotIndex) -> Option<Hold> {
        self.slots().granted(&self.maps, index)
    }

    /// A request was answered without its slot.
    pub(in super::super) fn unused(&self, index: SlotIndex) {
        self.slots().free(&self.maps, index);
    }

    /// A request in a slot has ended here. A grant may be on its way until one is answered that is made
    /// from now on, which have serial numbers from this one on.
    pub(in super::super) fn aborted(&self, index: SlotIndex, next_serial: u64) {
        self.slots().abort(index, next_serial);
    }

    /// A request with this serial number was answered.
    pub(in super::super) fn answered(&self, serial: u64) {
        self.slots().answered(&self.maps, serial);
    }

    /// Releases the lock by which a slot was granted. Whether it is ours any more; if not, the daemon is
    /// to be told, and the slot is free.
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

    /// The lock by which a slot was granted is lost, and the slot not ours any more.
    pub(in super::super) fn end_first(&self, hold: Hold) {
        self.slots().end_first(&self.maps, hold);
    }

    /// What was taken is released and not ours any more. What the daemon is to be told to finish, if
    /// nobody has told it, and what was noted.
    pub(in super::super) fn finish(&self, taken: RequestId) -> (Option<RequestId>, Option<Note>) {
        let mut slots = self.slots();
        let note = slots.notes.remove(&taken);
        self.count_notes(&slots);
        (slots.finish(&self.maps, taken), note)
    }

    /// The serial number of the request by which this was had first: what the daemon knows it by.
    pub(in super::super) fn serial(&self, taken: RequestId) -> Option<u64> {
        let index = u32::try_from(taken.index()).ok()?;
        self.slots().in_use.get(&index).map(|taken| taken.id.serial())
    }

    /// The daemon says that what came of this request is lost. Whom to wake is added.
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

    /// Ends all that an agent has, but what it waits for. Whom to wake is added.
    pub(in super::super) fn end_agent(&self, agent: AgentId, wakers: &mut Vec<Waker>) {
        let mut slots = self.slots();
        slots.end_agent(&self.maps, agent, wakers);
        self.count_notes(&slots);
    }

    /// Ends what is lost, by the request that it came of, and all that is idle: there is nobody any more
    /// to take it back. Whom to wake is added. Whether anything is left.
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

    /// Gives back all that is idle, and releases the rest by a message from now on. What is to be
    /// finished.
    pub(in super::super) fn give_back(&self) -> Vec<RequestId> {
        self.slots().give_back(&self.maps)
    }

    /// The same on a new connection, where requests are claimed without their slots. What was lost
    /// without a message, of that which stands in the table.
    pub(in super::super) fn come_back(&self, wakers: &mut Vec<Waker>) -> Vec<(RequestId, Lost)> {
        let mut slots = self.slots();
        let lost = slots.come_back(&self.maps, wakers);
        self.count_notes(&slots);
        lost
    }

    /// How many names are ours.
    pub(in super::super) fn count(&self) -> usize {
        self.slots().count(&self.maps)
    }

    /// Whether anything that was taken is held.
    pub(in super::super) fn is_held(&self) -> bool {
        self.slots().is_held(&self.maps)
    }

    /// All that was taken and is held.
    pub(in super::super) fn held(&self) -> Vec<HeldInSlot> {
        self.slots().held(&self.maps)
    }
}
