//! Hashed names.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;

use crate::ResourceName;

/// Hashes names: in the same way in all clones, and otherwise in each hasher differently.
///
/// For a host that has several lock managers and chooses one by the name's hash: with a clone of
/// its hasher in each, a name is hashed once.
#[derive(Clone, Debug, Default)]
pub struct NameHasher(RandomState);

/// A name with its hash.
#[derive(Clone, Copy, Debug)]
pub struct HashedName<'a> {
    pub(crate) name: &'a ResourceName,
    pub(crate) hash: u64,
}

impl NameHasher {
    /// The name with its hash.
    #[inline]
    pub fn hash<'a>(&self, name: &'a ResourceName) -> HashedName<'a> {
        HashedName { name, hash: self.0.hash_one(name) }
    }
}

impl HashedName<'_> {
    /// A number below `bound` that depends on the name alone, and is spread evenly over names.
    ///
    /// It is not made of the bits by which a lock manager finds the name among its own.
    #[inline]
    pub fn spread(self, bound: usize) -> u32 {
        // The table goes by the highest seven bits and by the lowest. These are from between.
        let bits = (self.hash << 7) >> 32;
        ((bits * bound as u64) >> 32) as u32
    }
}
