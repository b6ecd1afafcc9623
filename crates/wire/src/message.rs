//! The messages.

use navlock_engine::{FencingToken, Mode, RequestId, RequestKind, ResourceName};
use serde::{Deserialize, Serialize};

use crate::foreign::{FencingTokenForm, ModeForm, RequestIdForm, RequestKindForm, name};

/// The version of the protocol that this crate speaks; so far there is one.
pub const VERSION: u16 = 1;

/// The longest name that can be asked for, in bytes of WTF-8.
pub const MAX_NAME: usize = 1 << 20;

/// The longest name of a bucket, in bytes.
pub const MAX_BUCKET: usize = 1 << 16;

/// An agent, by the number that its client gave it. A number is free again after
/// [`CloseAgent`](ToDaemon::CloseAgent).
pub type Agent = u32;

/// A client id's sixteen bytes.
pub type ClientId = [u8; 16];

/// A question for a snapshot, by the number that its client gave it.
pub type Query = u64;

/// What a client says.
///
/// Agents and requests are numbered by the client, so that it need not wait for an answer before
/// it goes on; the numbers mean nothing in any other session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ToDaemon {
    /// First of all: the versions of the protocol that the client speaks.
    Hello {
        /// The oldest.
        oldest: u16,
        /// The newest.
        newest: u16,
    },
    /// An agent is there, in this bucket.
    OpenAgent {
        /// Its number from now on.
        agent: Agent,
        /// What a snapshot calls it.
        client_id: ClientId,
        /// Its bucket's name.
        bucket: String,
    },
    /// The agent is gone, with all it has.
    CloseAgent {
        /// Which.
        agent: Agent,
    },
    /// The agent has ended: it waits for nothing, holds nothing, and gets nothing any more.
    Terminate {
        /// Which.
        agent: Agent,
    },
    /// The agent requests a lock.
    Request {
        /// Who.
        agent: Agent,
        /// The request's number; never used before in this session.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// The lock's name.
        #[serde(with = "name")]
        name: ResourceName,
        /// How.
        #[serde(with = "RequestKindForm")]
        kind: RequestKind,
    },
    /// Aborts a request or releases a lock, whichever it is by now.
    Finish {
        /// Which.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
    },
    /// Asks what is held and what is pending in a bucket.
    Query {
        /// The question's number.
        query: Query,
        /// The bucket's name.
        bucket: String,
    },
}

/// What the daemon says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FromDaemon {
    /// The session has begun.
    Welcome {
        /// The version that is spoken in it.
        version: u16,
    },
    /// There will be no session.
    Refused {
        /// Why, for people.
        reason: String,
    },
    /// The request is a lock now.
    Granted {
        /// Which.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// Its fencing token.
        #[serde(with = "FencingTokenForm")]
        token: FencingToken,
    },
    /// The lock could not be had at once, and only that was asked for.
    Unavailable {
        /// Which request.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
    },
    /// The request has ended without a lock.
    Failed {
        /// Which.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// Why.
        failure: Failure,
    },
    /// The lock is not held any more, against its holder's will.
    Lost {
        /// Which request it had come from.
        #[serde(with = "RequestIdForm")]
        request: RequestId,
        /// How.
        how: Lost,
    },
    /// A part of a snapshot: one that is too long for a frame comes in several.
    Snapshot {
        /// To which question.
        query: Query,
        /// More held locks.
        held: Vec<SnapshotEntry>,
        /// More pending requests.
        pending: Vec<SnapshotEntry>,
        /// Whether this was the last part.
        last: bool,
    },
    /// There will be no snapshot.
    QueryFailed {
        /// To which question.
        query: Query,
        /// Why.
        failure: Failure,
    },
}

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
    /// It is too long or too much, and will be if it is asked again; for people.
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
}

/// One lock or one pending request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotEntry {
    /// The name that is held or waited for.
    #[serde(with = "name")]
    pub name: ResourceName,
    /// In which mode.
    #[serde(with = "ModeForm")]
    pub mode: Mode,
    /// By whom.
    pub client_id: ClientId,
}

/// The version to speak with a client that speaks `oldest` to `newest`, if there is one.
pub fn negotiate(oldest: u16, newest: u16) -> Option<u16> {
    // One version so far: it is spoken by both or there is none.
    (oldest..=newest).contains(&VERSION).then_some(VERSION)
}
