//! What `query()` answers.

use navlock_engine::{Mode, ResourceName};

use crate::ClientId;

/// What is held and what is pending in a bucket, at one moment.
///
/// When the caller looks at it, the state may have changed.
///
/// Spec: `LockManagerSnapshot`, <https://w3c.github.io/web-locks/#api-lock-manager-query>
///
/// With the feature `serde`, a snapshot is written and read in the specification's shape, which
/// `navigator.locks.query()` has: an object with `held` and `pending`, whose entries have `name`,
/// `mode` and `clientId`. Serde's strings are Unicode, so each lone surrogate of a name is written
/// as U+FFFD. Two names that differ only in lone surrogates look the same in this form.
///
/// ```
/// # use navlock::{Error, UserAgent};
/// # let locks = UserAgent::new().lock_manager("app");
/// let guard = locks.lock("db").shared().blocking()?;
/// let snapshot = navlock::blocking::block_on(locks.query())?;
/// assert_eq!(snapshot.held[0].name, "db");
/// assert_eq!(snapshot.held[0].client_id, locks.client_id());
/// assert!(snapshot.pending.is_empty());
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "camelCase")
)]
#[non_exhaustive]
pub struct LockInfo {
    /// The name that is held or waited for.
    pub name: ResourceName,
    /// The mode.
    pub mode: Mode,
    /// The client id of the agent: the same for all locks and requests of one agent.
    pub client_id: ClientId,
}

impl LockManagerSnapshot {
    /// A snapshot with these locks and requests: for a [`Backend`](crate::host::Backend).
    pub fn new(held: Vec<LockInfo>, pending: Vec<LockInfo>) -> Self {
        Self { held, pending }
    }
}

impl LockInfo {
    /// One lock or request: for a [`Backend`](crate::host::Backend).
    pub fn new(name: ResourceName, mode: Mode, client_id: ClientId) -> Self {
        Self { name, mode, client_id }
    }
}
