//! Agents, as far as the engine knows them: a number and what it owns.

use crate::list::List;

/// An agent: one client that can die as a whole.
///
/// The host hands these out and says which client they stand for. They index a table, so hosts
/// should use small numbers, and may use one again once its agent has been terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(u32);

impl AgentId {
    /// The agent with this number.
    pub const fn from_index(index: u32) -> Self {
        Self(index)
    }

    /// The number the host gave.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What one agent has in one lock manager.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentEntry {
    /// Its pending requests, in the order in which they were made.
    pub(crate) requests: List,
    /// Its locks, in the order in which they were granted.
    pub(crate) locks: List,
}
