//! An agent, as the thread knows it.

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
    /// What it has in etcd may say something else of it.
    pub(super) stale: Option<Stale>,
    pub(super) under: LeaseState,
    /// What it had through another connection was looked for.
    pub(super) is_recalled: bool,
}

/// Where an agent has said something of itself that may not be written everywhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stale {
    /// It is looked at again so long after that.
    pub(super) since: Uptime,
    pub(super) pause: Duration,
    /// One transaction at a time: etcd may be slow, and the watch behind.
    pub(super) is_writing: bool,
}

impl Stale {
    pub(super) fn is_due(&self) -> bool {
        !self.is_writing && self.since.elapsed() >= self.pause
    }
}

/// Under which lease an agent has what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseState {
    /// It has asked for nothing since the connection had one.
    Nothing,
    /// It waits for one.
    Coming,
    Lease(i64),
}

impl Agent {
    pub(super) fn new(bucket: u64, id: AgentId, client_id: ClientId) -> Self {
        let (info, under) = (AgentInfo::default(), LeaseState::Nothing);
        Self { bucket, id, client_id, info, stale: None, under, is_recalled: false }
    }

    /// What it has said of itself.
    pub(super) fn info(&self) -> &AgentInfo {
        &self.info
    }

    /// The lease under which it has what it has.
    pub(super) fn lease_id(&self) -> Option<i64> {
        match self.under {
            LeaseState::Lease(id) => Some(id),
            LeaseState::Nothing | LeaseState::Coming => None,
        }
    }
}
