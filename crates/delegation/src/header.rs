//! The header of a map.

use std::{
    mem::offset_of,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::layout::{BLOCK, FEWEST, MAGIC, MOST};

/// The header, which precedes the slots. Neither side trusts it, because the other side may have
/// written anything.
#[derive(Debug)]
#[repr(C, align(256))]
pub(crate) struct Header {
    /// [`MAGIC`]. The owner writes it after all other fields.
    magic: AtomicU64,
    /// A random number of the owner, never 0. The broker reads the number through the map, and
    /// compares it with the number that the owner has sent by message.
    owner: AtomicU64,
    /// A random number of the broker, never 0, for the same check by the owner. 0 until the broker
    /// has written it.
    broker: AtomicU64,
    /// How many of the owner's locks are in no slot.
    unmapped: AtomicU64,
    /// How many slots there are. The number grows, each time after the file has got room for the
    /// new slots.
    slots: AtomicU64,
}

// As `layout.rs` says.
const _: () = {
    assert!(size_of::<Header>() == BLOCK && align_of::<Header>() == BLOCK);
    assert!(offset_of!(Header, magic) == 0);
    assert!(offset_of!(Header, owner) == 8);
    assert!(offset_of!(Header, broker) == 16);
    assert!(offset_of!(Header, unmapped) == 24);
    assert!(offset_of!(Header, slots) == 32);
};

impl Header {
    pub(crate) fn begin(&self, owner: u64) {
        self.owner.store(owner, Ordering::Relaxed);
        self.set_slots(FEWEST);
        self.magic.store(MAGIC, Ordering::Release);
    }

    pub(crate) fn is_one(&self) -> bool {
        self.magic.load(Ordering::Acquire) == MAGIC
    }

    pub(crate) fn owner(&self) -> u64 {
        self.owner.load(Ordering::Acquire)
    }

    pub(crate) fn broker(&self) -> u64 {
        self.broker.load(Ordering::Acquire)
    }

    pub(crate) fn set_broker(&self, nonce: u64) {
        self.broker.store(nonce, Ordering::Release);
    }

    pub(crate) fn unmapped(&self) -> u32 {
        // A value that is too large for such a number counts as the largest number.
        u32::try_from(self.unmapped.load(Ordering::Acquire)).unwrap_or(u32::MAX)
    }

    pub(crate) fn set_unmapped(&self, holds: u32) {
        self.unmapped.store(holds.into(), Ordering::Release);
    }

    pub(crate) fn slots(&self) -> u32 {
        let said = u32::try_from(self.slots.load(Ordering::Acquire));
        said.unwrap_or(MOST).min(MOST)
    }

    pub(crate) fn set_slots(&self, slots: u32) {
        self.slots.store(slots.into(), Ordering::Release);
    }
}
