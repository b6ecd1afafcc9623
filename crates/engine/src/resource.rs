//! What a lock manager knows of one name.

use crate::{HashedName, Mode, ResourceName, list::List};

/// One name with its queue and its held locks: the entry of the lock request queue map, and the
/// part of the held lock set that has this name.
///
/// A resource exists from the first request for the name until the name has no waiter and no
/// holder. If the name is short, the resource then stays as the idle one, until another resource
/// becomes idle or a new name takes its place.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) name: ResourceName,
    /// The hash of the name, so that it is hashed once.
    pub(crate) hash: u64,
    /// The lock request queue, first to be granted first.
    pub(crate) queue: List,
    /// The held locks of this name, in the order of their grants. All have the same mode.
    pub(crate) held: List,
    /// The mode of the held locks; says nothing while there are none.
    pub(crate) held_mode: Mode,
    /// Whether a termination has listed this resource for processing, so that it is listed once.
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

    /// Whether this is the resource of the name.
    #[inline]
    pub(crate) fn is(&self, HashedName { name, hash }: HashedName<'_>) -> bool {
        self.hash == hash && self.name == *name
    }

    /// Whether a lock of this mode could be held beside those that are held.
    #[inline]
    pub(crate) fn admits(&self, mode: Mode) -> bool {
        self.held.is_empty() || (mode == Mode::Shared && self.held_mode == Mode::Shared)
    }

    pub(crate) const fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.held.is_empty()
    }
}
