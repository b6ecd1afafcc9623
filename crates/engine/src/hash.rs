//! Hashed names.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;

use crate::ResourceName;

/// Hashes names. All clones of a hasher hash alike; any two other hashers do not.
///
/// This is for a host that has several lock managers and chooses one by the name's hash. If each of
/// them has a clone of the host's hasher, a name is hashed once.
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
    /// The number is not made of the bits by which a lock manager finds the name among its own.
    #[inline]
    pub fn spread(self, bound: usize) -> u32 {
        // The hash table uses the highest seven bits and the lowest ones. The bits taken here lie
        // between.
        let bits = (self.hash << 7) >> 32;
        ((bits * bound as u64) >> 32) as u32
    }
}
