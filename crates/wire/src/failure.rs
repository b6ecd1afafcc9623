//! Why a request ended without a lock, and how a lock was lost.

use serde::{Deserialize, Serialize};

use crate::ids::ClientId;

/// Why a request ended without a lock, or a question without a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Failure {
    /// The agent has been terminated.
    Terminated,
    /// The daemon is ending.
    Closed,
    /// Something else, for people.
    Other(String),
    /// What was asked for is too long or too much, and asking again will not help; for people.
    Refused(String),
}

/// How a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Lost {
    /// Another request took it with `steal`.
    Stolen,
    /// The agent was terminated.
    Terminated,
    /// The daemon is ending.
    Closed,
    /// The daemon lost its own connection to what keeps the lock.
    Disconnected,
    /// What keeps the lock has lost its data, or was set back.
    Reset,
    /// Somebody has removed the lock where it is kept.
    Removed,
    /// [`Stolen`](Self::Stolen), by this agent.
    StolenBy(ClientId),
}
