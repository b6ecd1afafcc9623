//! What leads from one entry of a slab to another.

/// No neighbour. A slab of this many nodes would fill 200 GiB.
pub(crate) const NONE: u32 = u32::MAX;

/// A slab's key, narrowed.
#[inline]
pub(crate) fn to_index(key: usize) -> u32 {
    let index = u32::try_from(key).ok().filter(|&index| index != NONE);
    index.expect("memory ends before a slab has 2^32 entries of 48 bytes")
}

/// Where a resource stands in its lock manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResourceIndex(pub(crate) u32);

/// Where an agent stands in its lock manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AgentIndex(pub(crate) u32);

/// A node's neighbours in one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    pub(crate) previous: u32,
    pub(crate) next: u32,
}

impl Links {
    /// Before this one, and after none.
    pub(crate) const fn before(next: u32) -> Self {
        Self { previous: NONE, next }
    }

    /// Which comes next.
    pub(crate) const fn next(self) -> u32 {
        self.next
    }
}
