//! Indices of the slabs of a lock manager, and the links by which its nodes form lists.

/// The index that stands for "no neighbour". A slab in which it were a real index would fill 200
/// GiB.
pub(crate) const NONE: u32 = u32::MAX;

/// Narrows the key of a slab to an index.
#[inline]
pub(crate) fn to_index(key: usize) -> u32 {
    let index = u32::try_from(key).ok().filter(|&index| index != NONE);
    index.expect("memory ends before a slab has 2^32 entries of 48 bytes")
}

/// The index of a resource in its lock manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResourceIndex(pub(crate) u32);

/// The index of an agent in its lock manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AgentIndex(pub(crate) u32);

/// The neighbours of a node in one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    pub(crate) previous: u32,
    pub(crate) next: u32,
}

impl Links {
    /// The links of a node that comes first, before this one.
    pub(crate) const fn before(next: u32) -> Self {
        Self { previous: NONE, next }
    }

    /// The neighbour that comes next.
    pub(crate) const fn next(self) -> u32 {
        self.next
    }
}
