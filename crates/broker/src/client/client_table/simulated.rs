//! What the simulation asks a table.

use navlock_engine::RequestId;

use super::{ClientTable, SlotPlace};

impl ClientTable {
    /// Whether names can be owned now.
    pub(in super::super) fn can_own(&self) -> bool {
        self.mapping.is_confirmed()
    }

    /// Whether this lock stands in a slot.
    pub(in super::super) fn is_in_slot(&mut self, id: RequestId) -> bool {
        self.state(id).is_some() && matches!(self.requests[id.index()].place, SlotPlace::Hold(_))
    }
}
