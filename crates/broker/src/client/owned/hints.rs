//! Hints: the slots in which names were found the last time that they were taken.

use std::{
    hash::BuildHasher,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use foldhash::fast::RandomState;
use navlock_core::ResourceName;
use navlock_engine::AgentId;

use super::maps::SlotIndex;

/// How many places there are. Mostly this many names have places of their own.
const MOST: usize = 1024;

/// For each of many names, one slot in which the name may be found. The slot has to be checked: names
/// share places, and a slot may have been given to another name.
///
/// # Invariant
///
/// While a request for a name is waiting, no hint leads to a slot whose take would overtake the request,
/// because hints are changed only while the slots are locked.
#[derive(Default)]
pub(super) struct Hints {
    /// The places, which are made when the first hint is noted. A client that takes one lock and
    /// ends needs none.
    places: OnceLock<Box<[AtomicU32]>>,
    hasher: RandomState,
}

/// No slot has this index.
const NONE: SlotIndex = SlotIndex::MAX;

impl Hints {
    #[inline]
    pub(super) fn get(&self, agent: AgentId, name: &ResourceName) -> Option<SlotIndex> {
        let index = self.places.get()?[self.place(agent, name)].load(Relaxed);
        (index != NONE).then_some(index)
    }

    pub(super) fn set(&self, agent: AgentId, name: &ResourceName, index: SlotIndex) {
        let places = self.places.get_or_init(|| (0..MOST).map(|_| AtomicU32::new(NONE)).collect());
        places[self.place(agent, name)].store(index, Relaxed);
    }

    pub(super) fn clear(&self, agent: AgentId, name: &ResourceName) {
        if let Some(places) = self.places.get() {
            places[self.place(agent, name)].store(NONE, Relaxed);
        }
    }

    #[inline]
    fn place(&self, agent: AgentId, name: &ResourceName) -> usize {
        let hash = self.hasher.hash_one((agent.index(), name));
        #[expect(clippy::cast_possible_truncation, reason = "of the hash some bits are enough")]
        let hash = hash as usize;
        hash % MOST
    }
}
