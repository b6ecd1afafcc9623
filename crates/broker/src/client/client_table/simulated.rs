//! What the simulation asks a table.

use navlock_engine::RequestId;

use super::{super::owned, ClientTable, SlotPlace};

impl ClientTable {
    /// Whether names can be owned now.
    pub(in super::super) fn can_own(&self) -> bool {
        self.mapping.is_confirmed()
    }

    /// Whether this lock stands in a slot.
    pub(in super::super) fn is_in_slot(&mut self, id: RequestId) -> bool {
        self.state(id).is_some() && matches!(self.requests[id.index()].place, SlotPlace::Hold(_))
    }

    /// Whether the slot of this request, whose answer was not read, says that the lock was granted and is lost.
    pub(in super::super) fn is_lost_unread(&self, id: RequestId) -> bool {
        let SlotPlace::Slot(slot) = self.requests[id.index()].place else { return false };
        let slot = self.owned.map().and_then(|map| map.slot(owned::number(slot)));
        slot.is_some_and(|slot| slot.word().look().is_lost())
    }
}
