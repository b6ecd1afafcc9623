//! Why a request ended without a lock, and how a lock was lost.

use navlock_core::{ClientId, Lost};
use serde::{Deserialize, Serialize};

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
    /// The lock was granted, and was lost before the client was told.
    Lost(Lost),
}

/// How a lock was lost. If it was stolen: by this agent, if that is known.
pub type HowLost = (Lost, Option<ClientId>);
