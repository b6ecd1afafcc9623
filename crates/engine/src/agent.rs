//! An agent, as far as the engine knows it: a number and what it owns.

use crate::list::List;

/// An agent: one client that can die as a whole.
///
/// The host hands these out and says which client they stand for. It may use a number again once
/// its agent has been terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(u32);

impl AgentId {
    /// The agent with this number.
    pub const fn from_index(index: u32) -> Self {
        Self(index)
    }

    /// The number the host gave.
    ///
    /// ```
    /// assert_eq!(navlock_engine::AgentId::from_index(7).index(), 7);
    /// ```
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Numbers are often consecutive, and a hash table uses the highest and the lowest bits of a
    /// hash.
    pub(crate) fn hash(self) -> u64 {
        let spread = u64::from(self.0).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        spread ^ spread >> 32
    }
}

/// What one agent has in one lock manager. Exists from the agent's first request there until the
/// agent's end.
#[derive(Clone, Debug)]
pub(crate) struct AgentEntry {
    pub(crate) id: AgentId,
    /// Its pending requests, in the order in which they were made.
    pub(crate) requests: List,
    /// Its locks, in the order in which they were granted.
    pub(crate) locks: List,
}
