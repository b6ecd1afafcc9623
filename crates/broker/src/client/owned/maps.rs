//! The maps of a client's files, one after the other.

use std::sync::OnceLock;

use navlock_delegation::{OwnerMap, Slot};

/// How many files of a client can be maps, one after the other: somebody removes a file, or the
/// client has no locks for a long time. A lock that is held in one map is still held when the next
/// map has taken its place, so no map is dropped.
const MOST: usize = 32;

/// This is more than the number of slots that a map can have.
const ROOM: u32 = 1024;

/// The number of a slot in one of the maps that there have been, as [`index`] makes it.
pub(in super::super) type SlotIndex = u32;

/// All maps that there have been.
#[derive(Default)]
pub(super) struct Maps([OnceLock<OwnerMap>; MOST]);

impl Maps {
    /// The slot of this index. The index also says in which map the slot is.
    #[inline]
    pub(super) fn slot(&self, index: SlotIndex) -> Option<&Slot> {
        self.get((index / ROOM) as usize)?.slot(index % ROOM)
    }

    #[inline]
    pub(super) fn get(&self, generation: usize) -> Option<&OwnerMap> {
        self.0.get(generation)?.get()
    }

    /// Adds a map at a place that has none. Returns whether there was room.
    pub(super) fn put(&self, generation: usize, map: OwnerMap) -> bool {
        self.0.get(generation).is_some_and(|place| place.set(map).is_ok())
    }
}

/// The index of a slot of this map.
pub(super) fn index(generation: usize, slot: u32) -> SlotIndex {
    u32::try_from(generation).map_or(SlotIndex::MAX, |generation| generation * ROOM + slot)
}

/// The map to which the index belongs, and the number of the slot in that map.
pub(super) fn place(index: SlotIndex) -> (usize, u32) {
    ((index / ROOM) as usize, index % ROOM)
}

/// The number by which the daemon knows a slot of the map of the client's file.
pub(in super::super) fn number(index: SlotIndex) -> navlock_wire::Slot {
    place(index).1
}
