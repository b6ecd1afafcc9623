//! What the keeper knows of an agent: what it has said of itself, and its lease.

use std::time::Duration;

use navlock_core::{AgentInfo, ClientId};
use navlock_engine::AgentId;

use crate::clock::Uptime;

/// An agent, as the thread knows it.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) bucket: u64,
    pub(super) id: AgentId,
    pub(super) client_id: ClientId,
    pub(super) info: AgentInfo,
    /// `Some` while keys of the agent in etcd may still contain an older description.
    pub(super) stale: Option<Stale>,
    pub(super) under: LeaseState,
    /// Whether this connection has looked for the agent's locks and requests of another connection.
    pub(super) is_reclaimed: bool,
}

/// Says that the description of an agent has changed, and may not be written to all of its keys
/// yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stale {
    /// After this time and `pause`, the keys are looked at again.
    pub(super) since: Uptime,
    pub(super) pause: Duration,
    /// Whether a transaction is on its way. There is only one at a time, because etcd may be slow,
    /// and the watch may be behind.
    pub(super) is_writing: bool,
}

impl Stale {
    pub(super) fn is_due(&self) -> bool {
        !self.is_writing && self.since.elapsed() >= self.pause
    }
}

/// The lease of an agent's locks and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseState {
    /// The agent has no lease, and has requested nothing that needs one.
    Nothing,
    /// The agent waits for a lease.
    Coming,
    Lease(i64),
}

impl Agent {
    pub(super) fn new(bucket: u64, id: AgentId, client_id: ClientId) -> Self {
        let (info, under) = (AgentInfo::default(), LeaseState::Nothing);
        Self { bucket, id, client_id, info, stale: None, under, is_reclaimed: false }
    }

    /// The lease of the agent's locks and requests.
    pub(super) fn lease_id(&self) -> Option<i64> {
        match self.under {
            LeaseState::Lease(id) => Some(id),
            LeaseState::Nothing | LeaseState::Coming => None,
        }
    }
}
