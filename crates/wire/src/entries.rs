//! What daemons answer about locks and about themselves.

use navlock_core::LockInfo;
use serde::{Deserialize, Serialize};

/// One lock or one pending request, with all that is known of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectionEntry {
    /// What a snapshot says of it.
    pub lock: LockInfo,
    /// For how long it has been held or pending, in milliseconds.
    pub age: Option<u64>,
    /// The fencing token of a held lock.
    pub token: Option<u64>,
    /// What it is for, if its agent does not say that.
    pub why: Option<String>,
}

/// A name that an agent may take without asking, until somebody else asks for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedEntry {
    /// The name, in which mode it can be taken, and by whom.
    pub lock: LockInfo,
    /// For how long the agent has had the name, in milliseconds.
    pub age: u64,
    /// How often it was taken without asking since then.
    pub taken: u64,
}

/// The status of a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its process.
    pub pid: u32,
    /// Its release.
    pub release: String,
    /// For how long it has run, in milliseconds.
    pub age: u64,
    /// How many clients are connected, the one that asks included.
    pub clients: u64,
    /// How many commands hold locks whose client was killed.
    pub orphans: u64,
    /// How many locks they hold.
    pub held: u64,
    /// How many requests of theirs are pending.
    pub pending: u64,
}
