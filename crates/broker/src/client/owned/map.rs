//! The map of the client's own file, for the code that keeps the connection.

use std::sync::atomic::Ordering;

use navlock_delegation::OwnerMap;

use super::{Owned, maps, maps::SlotIndex};

impl Owned {
    /// Sets the map of the file that stands now. Returns whether there was room for one more map.
    pub(in super::super) fn set_map(&self, map: OwnerMap) -> bool {
        self.slots().set_map(&self.maps, map)
    }

    /// The number by which the daemon knows a slot of its map.
    pub(in super::super) fn number(index: SlotIndex) -> navlock_wire::Slot {
        maps::place(index).1
    }

    /// Whether any lock stands in a map that was [retired](Self::retire_map), while there is no other
    /// map.
    pub(in super::super) fn has_old(&self) -> bool {
        let slots = self.slots();
        slots.generation().is_none() && !slots.in_use.is_empty()
    }

    /// Notes that the client's file is another one from here on, which is no map.
    pub(in super::super) fn retire_map(&self) {
        self.slots().retire();
    }

    /// The map of the file that stands now.
    pub(in super::super) fn map(&self) -> Option<&OwnerMap> {
        let generation = self.slots().generation()?;
        self.maps.get(generation)
    }

    /// Notes that the map has this many slots now.
    pub(in super::super) fn grown(&self, slots: u32) {
        self.slots().grown(slots);
    }

    /// Says how many requests and locks stand in no slot.
    pub(in super::super) fn set_unmapped(&self, unmapped: u32) {
        if let Some(map) = self.map() {
            map.set_unmapped(unmapped);
        }
    }

    pub(in super::super) fn set_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Relaxed);
    }
}
