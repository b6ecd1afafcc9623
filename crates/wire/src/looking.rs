//! What somebody who looks is told: what there is, and what happens.

use std::sync::Arc;

use navlock_core::{AgentInfo, look::ClientState};
use navlock_engine::{Mode, Patience, ResourceName};
use serde::{Deserialize, Serialize};

use crate::{
    failure::HowLost,
    ids::{ClientId, LockId, Moment},
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
        /// Its state.
        state: ClientState,
    },
    /// A client is gone.
    ClientWent {
        /// Which client.
        client: u64,
    },
    /// An agent is there, and says this of itself.
    AgentCame {
        /// Which agent.
        agent: ClientId,
        /// Its bucket.
        bucket: Arc<str>,
        /// What it says of itself.
        info: AgentInfo,
        /// Of which client; `None` if it is another machine's.
        client: Option<u64>,
    },
    /// An agent is gone.
    AgentWent {
        /// Which agent.
        agent: ClientId,
    },
    /// A request waits.
    Requested(OfName, LookEntry),
    /// A lock is held.
    Granted(OfName, LookEntry),
    /// A lock could not be had at once, which is all that this agent has asked for.
    Unavailable(OfName, ClientId),
    /// A lock was released.
    Released(OfName, LockId),
    /// A request has ended without a lock.
    Aborted(OfName, LockId),
    /// A lock was lost.
    Lost(OfName, LockId, HowLost),
    /// A name is owned, and was seen held (`true`) or free.
    Owned(OfName, LookEntry, bool),
    /// A name is not owned any more, and nobody held it.
    Recalled(OfName, LockId),
    /// The daemon has taken over from another one.
    Recovered,
    /// Since this moment nothing has been heard of the agent's machine, though something should
    /// have been.
    AgentSilent {
        /// Which agent.
        agent: ClientId,
        /// When others can have what the agent has, if that stays so.
        ends: Moment,
    },
    /// A part of the picture: other machines have more locks and requests than were looked at.
    LeftOut {
        /// How many more, at most.
        count: u64,
    },
}

impl LookChange {
    /// The name that the change is about, if it is about one.
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

/// A name in its bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfName {
    /// The bucket.
    pub bucket: Arc<str>,
    /// The name.
    pub name: ResourceName,
}

/// A lock or request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookEntry {
    /// Its id.
    pub id: LockId,
    /// The mode in which it is held or wanted.
    pub mode: Mode,
    /// The fencing token of a lock.
    pub token: Option<u64>,
    /// The locks inside which it was asked for, as far as that is known.
    pub inside: Vec<LockId>,
    /// How long a request waits.
    pub patience: Patience,
    /// What the lock is for, if the request says so itself.
    pub why: Option<String>,
    /// How often its owner has taken it without asking.
    pub taken: u64,
}
