//! The maps of a client's files, one after the other.

use std::sync::OnceLock;

use navlock_delegation::{OwnerMap, Slot};

/// How many files of a client can be maps: somebody removes them, or the client has nothing for long.
/// What is held in one of them is still held when the next has taken its place, so none is let go of.
const MOST: usize = 32;

/// More than a map has slots.
const ROOM: u32 = 1024;

/// A slot of one of the maps there have been, by [`index`].
pub(in super::super) type SlotIndex = u32;

/// All maps there have been.
#[derive(Default)]
pub(super) struct Maps([OnceLock<OwnerMap>; MOST]);

impl Maps {
    /// The slot of this index, which says in which map as well.
    #[inline]
    pub(super) fn slot(&self, index: SlotIndex) -> Option<&Slot> {
        self.get((index / ROOM) as usize)?.slot(index % ROOM)
    }

    #[inline]
    pub(super) fn get(&self, generation: usize) -> Option<&OwnerMap> {
        self.0.get(generation)?.get()
    }

    /// Puts one where there is none. Whether there was room.
    pub(super) fn put(&self, generation: usize, map: OwnerMap) -> bool {
        self.0.get(generation).is_some_and(|place| place.set(map).is_ok())
    }
}

/// The index of a slot of this map.
pub(super) fn index(generation: usize, slot: u32) -> SlotIndex {
    u32::try_from(generation).map_or(SlotIndex::MAX, |generation| generation * ROOM + slot)
}

/// Which map's the index is, and the slot's number there.
pub(super) fn place(index: SlotIndex) -> (usize, u32) {
    ((index / ROOM) as usize, index % ROOM)
}
