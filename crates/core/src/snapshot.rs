//! What `query()` answers.

use navlock_engine::{Mode, ResourceName};

use crate::ClientId;

/// What is held and what is pending in a bucket, at one moment.
///
/// By the time it is looked at, the state may have changed.
///
/// Spec: `LockManagerSnapshot`, <https://w3c.github.io/web-locks/#api-lock-manager-query>
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockManagerSnapshot {
    /// The held locks: per name in the order of their grants, names in no particular order.
    pub held: Vec<LockInfo>,
    /// The pending requests: per name in the order in which they will be granted, names in no
    /// particular order.
    pub pending: Vec<LockInfo>,
}

/// One lock or one pending request.
///
/// Spec: `LockInfo`, <https://w3c.github.io/web-locks/#api-lock-manager-query>
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The name that is held or waited for.
    pub name: ResourceName,
    /// In which mode.
    pub mode: Mode,
    /// By whom: the same for all locks and requests of one agent.
    pub client_id: ClientId,
}

impl LockManagerSnapshot {
    /// A snapshot with these locks and requests: for a [`Backend`](crate::Backend).
    pub fn new(held: Vec<LockInfo>, pending: Vec<LockInfo>) -> Self {
        Self { held, pending }
    }
}

impl LockInfo {
    /// One lock or request: for a [`Backend`](crate::Backend).
    pub fn new(name: ResourceName, mode: Mode, client_id: ClientId) -> Self {
        Self { name, mode, client_id }
    }
}
