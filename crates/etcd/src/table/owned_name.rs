//! A name that is this connection's, and what comes of requests for it.

use std::{collections::BTreeMap, task::Waker};

use navlock_core::{Mode, ResourceName, host::Answer};
use navlock_engine::RequestId;

use super::entries::{Agent, AgentSerial, is_over};
#[cfg(test)]
use crate::keys::NameKey;
use crate::{
    keys::RequestKey,
    lease::LeaseName,
    tokens::{self, Grant},
    values::RequestNotes,
};

/// A name that is ours.
#[derive(Debug)]
pub(super) struct Owned {
    /// The revision that made the key which says so.
    pub(super) made: i64,
    /// Under which that stands.
    pub(super) lease: LeaseName,
    /// How often it was granted since.
    pub(super) granted: u64,
    pub(super) shared: usize,
    /// Never beside shared ones.
    pub(super) exclusive: bool,
    /// Who waits: the places of the requests, by their serial numbers, which grow with the calls.
    pub(super) queue: BTreeMap<u64, usize>,
    /// If it is ours for a run alone, by the same numbers: where those were in the queue of all.
    pub(super) run: BTreeMap<u64, QueueOrder>,
    pub(super) gate: GrantState,
}

/// Where a request is in the queue of all: by this revision, and by this among those that came with it.
pub(crate) type QueueOrder = (i64, u64);

/// Whether anybody is granted a name of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrantState {
    Open,
    /// Nobody any more: it is to be given up, or it is not certain that it is ours.
    Closed,
    /// Nor can it be given up: etcd has refused to have written what is held.
    Stuck,
}

/// What has become of a request whose name is ours.
#[derive(Debug)]
pub(crate) enum LocalOutcome {
    /// It is answered.
    Answered {
        answer: Answer,
        /// From whom it was taken.
        wakers: Vec<Waker>,
        /// Its own, to be dropped.
        own: Option<Waker>,
    },
    /// It waits. The thread is to be told if its agent has no lease yet, or nobody is granted the name here
    /// any more.
    Waits { is_known: bool },
}

/// What becomes of requests when a name begins to be ours.
#[derive(Debug, Default)]
pub(crate) struct Started {
    pub(crate) wakers: Vec<Waker>,
    /// The keys that are not there any more, and whose they were.
    pub(crate) freed: Vec<(RequestKey, RequestId)>,
    /// Somebody asks who cannot be granted it: what its agent has stands under another lease.
    pub(crate) has_strangers: bool,
    /// Agents that wait and have no lease yet.
    pub(crate) without_lease: Vec<AgentSerial>,
}

/// A lock or request that is to be written to etcd.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) id: RequestId,
    pub(crate) agent: AgentSerial,
    /// What it is to be called.
    pub(crate) key: RequestKey,
    /// If keys have only a hash of it.
    pub(crate) name: Option<ResourceName>,
    pub(crate) mode: Mode,
    /// If it is a lock.
    pub(crate) grant: Option<Grant>,
    /// Where it was before in the queue of all.
    pub(crate) place: Option<QueueOrder>,
    pub(crate) asked: u64,
    pub(crate) said: RequestNotes,
}

/// How a name of ours is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// How often it was granted.
    pub(crate) granted: u64,
    /// Somebody holds it.
    pub(crate) is_held: bool,
    /// Or waits.
    pub(crate) is_used: bool,
    /// It is ours for a run alone.
    pub(crate) is_for_run: bool,
    pub(crate) gate: GrantState,
}

impl Usage {
    /// Whether it is to be given up: no more is granted of it, and what was is done.
    pub(crate) fn is_over(&self) -> bool {
        !self.is_held && self.gate != GrantState::Open || !self.is_used && self.is_for_run
    }
}

/// A lock that is known here only.
#[cfg(test)]
pub(crate) struct HeldHere {
    pub(crate) name: NameKey,
    /// The revision that made the key by which the name is ours.
    pub(crate) made: i64,
    /// Under which that stands.
    pub(crate) lease: i64,
    /// Whose it is.
    pub(crate) agent: AgentSerial,
}

impl Owned {
    pub(super) fn admits(&self, mode: Mode) -> bool {
        match mode {
            Mode::Exclusive => !self.exclusive && self.shared == 0,
            Mode::Shared => !self.exclusive,
        }
    }

    /// A lock of this mode is granted.
    pub(super) fn grant(&mut self, mode: Mode) -> Grant {
        match mode {
            Mode::Exclusive => self.exclusive = true,
            Mode::Shared => self.shared += 1,
        }
        self.granted += 1;
        // There is no token after this one.
        if self.granted >= tokens::MOST {
            self.close();
        }
        Grant::counted(self.made, self.granted)
    }

    pub(super) fn is_open(&self) -> bool {
        self.gate == GrantState::Open
    }

    pub(super) fn close(&mut self) {
        if self.is_open() {
            self.gate = GrantState::Closed;
        }
    }

    pub(super) fn is_for_run(&self) -> bool {
        !self.run.is_empty()
    }

    pub(super) fn is_held(&self) -> bool {
        self.exclusive || self.shared > 0
    }

    /// A lock of this mode has ended.
    pub(super) fn release(&mut self, mode: Mode) {
        match mode {
            Mode::Exclusive => self.exclusive = false,
            Mode::Shared => self.shared = self.shared.saturating_sub(1),
        }
    }

    /// Whether this agent can be granted the name: what it has ends when the name does.
    pub(super) fn is_of(&self, agent: &Agent) -> bool {
        agent.lease.is_some_and(|share| share.lease == self.lease) && !is_over(agent.ends)
    }
}
