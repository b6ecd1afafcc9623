//! What a lock manager knows of one name.

use crate::{HashedName, Mode, ResourceName, list::List};

/// One name with its queue and its held locks: the entry of the lock request queue map, and the
/// part of the held lock set that has this name.
///
/// Exists from the first request for the name until its last waiter and last holder are gone; if
/// the name is short, until another name is idle, or takes its place.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) name: ResourceName,
    /// The hash of the name, so that it is hashed once.
    pub(crate) hash: u64,
    /// The lock request queue, first to be granted first.
    pub(crate) queue: List,
    /// The held locks of this name, in the order of their grants. All of one mode.
    pub(crate) held: List,
    /// The mode of the held locks; says nothing while there are none.
    pub(crate) held_mode: Mode,
    /// Noted down for processing, so that it is noted once only.
    pub(crate) touched: bool,
}

impl Resource {
    pub(crate) fn new(name: ResourceName, hash: u64) -> Self {
        Self {
            name,
            hash,
            queue: List::default(),
            held: List::default(),
            held_mode: Mode::Exclusive,
            touched: false,
        }
    }

    /// Whether it is the resource of this name.
    #[inline]
    pub(crate) fn is(&self, HashedName { name, hash }: HashedName<'_>) -> bool {
        self.hash == hash && self.name == *name
    }

    /// Whether a lock of this mode could be held beside those that are.
    #[inline]
    pub(crate) fn admits(&self, mode: Mode) -> bool {
        self.held.is_empty() || (mode == Mode::Shared && self.held_mode == Mode::Shared)
    }

    pub(crate) const fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.held.is_empty()
    }
}
