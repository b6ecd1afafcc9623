//! What somebody who looks is told: what there is, and what happens.

use std::sync::Arc;

use navlock_engine::{Mode, ResourceName};
use serde::{Deserialize, Serialize};

use crate::{
    agent_info::{AgentInfo, Meta},
    failure::Lost,
    ids::{ClientId, LockId, Moment},
    serde_remote::{ModeForm, bucket, name},
};

/// Something that there is, or that has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookEvent {
    /// When, or since when.
    pub at: Moment,
    /// What.
    pub change: LookChange,
}

/// What there is, or has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LookChange {
    /// A client is there.
    ClientCame {
        /// The number of its connection.
        client: u64,
        /// Its process; 0 if that is not known.
        pid: u32,
        /// How it is.
        state: ClientState,
    },
    /// It is not.
    ClientWent {
        /// Which.
        client: u64,
    },
    /// An agent is there, and says this of itself.
    AgentCame {
        /// Which.
        agent: ClientId,
        /// Its bucket.
        #[serde(with = "bucket")]
        bucket: Arc<str>,
        /// What it says of itself.
        info: AgentInfo,
        /// What it says besides.
        meta: Meta,
        /// Of which client; `None` if it is another machine's.
        client: Option<u64>,
    },
    /// It is not.
    AgentWent {
        /// Which.
        agent: ClientId,
    },
    /// A request waits.
    Requested(OfName, LookEntry),
    /// A lock is held.
    Granted(OfName, LookEntry),
    /// It could not be had at once by this agent, which asked for nothing else.
    Unavailable(OfName, ClientId),
    /// It was released.
    Released(OfName, LockId),
    /// The request has ended without the lock.
    Aborted(OfName, LockId),
    /// It was lost.
    Lost(OfName, LockId, Lost),
    /// A name is owned, and was seen held or not.
    Owned(OfName, LookEntry, bool),
    /// A name is not owned any more, and nobody held it.
    Recalled(OfName, LockId),
    /// The daemon has taken over from another one.
    Recovered,
    /// Since then nothing has been heard of the agent's machine, though it should have been.
    AgentSilent {
        /// Which.
        agent: ClientId,
        /// When others can have what it has, if that stays so.
        ends: Moment,
    },
    /// Among what there is: of other machines there is more than was looked at.
    LeftOut {
        /// So many locks and requests more, at most.
        count: u64,
    },
}

impl LookChange {
    /// The name that it is about, if it is about one.
    pub fn of(&self) -> Option<&OfName> {
        match self {
            Self::Requested(of, _)
            | Self::Granted(of, _)
            | Self::Unavailable(of, _)
            | Self::Released(of, _)
            | Self::Aborted(of, _)
            | Self::Lost(of, ..)
            | Self::Owned(of, ..)
            | Self::Recalled(of, _) => Some(of),
            Self::ClientCame { .. }
            | Self::ClientWent { .. }
            | Self::AgentCame { .. }
            | Self::AgentWent { .. }
            | Self::AgentSilent { .. }
            | Self::LeftOut { .. }
            | Self::Recovered => None,
        }
    }
}

/// How a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ClientState {
    /// It is connected.
    Connected,
    /// It was killed, and others go on under its locks.
    Orphaned,
    /// It lives, and has not come back from an earlier daemon.
    Sleeping,
}

/// A name in its bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfName {
    /// The bucket.
    #[serde(with = "bucket")]
    pub bucket: Arc<str>,
    /// The name.
    #[serde(with = "name")]
    pub name: ResourceName,
}

/// A lock or request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookEntry {
    /// Which.
    pub id: LockId,
    /// How it is held or wanted.
    #[serde(with = "ModeForm")]
    pub mode: Mode,
    /// The fencing token of a lock.
    pub token: Option<u64>,
    /// The locks inside which it was asked for, as far as that is known.
    pub inside: Vec<LockId>,
    /// Of a request, whether it may give up by itself.
    pub may_give_up: bool,
    /// How often its owner has taken it without asking.
    pub taken: u64,
}
