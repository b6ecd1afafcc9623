//! A name that this connection owns, and what becomes of requests for the name.

use std::{collections::BTreeMap, task::Waker};

use navlock_core::{Mode, host::Answer};
use navlock_engine::RequestId;

use super::entries::{Agent, AgentSerial, is_over};
use crate::{
    lease::LeaseName,
    names::RequestKey,
    tokens::{self, Grant},
};

/// A name that this connection owns.
#[derive(Debug)]
pub(super) struct Owned {
    /// The revision that made the owner key.
    pub(super) made: i64,
    /// The lease of the owner key.
    pub(super) lease: LeaseName,
    /// How often the name was granted since.
    pub(super) granted: u64,
    pub(super) shared: usize,
    /// Whether an exclusive lock is held, which excludes shared locks.
    pub(super) exclusive: bool,
    /// The indices of the requests that wait, by their serial numbers, which grow with the calls.
    pub(super) queue: BTreeMap<u64, usize>,
    /// If the name is owned for a run alone, the places that the requests of the run had in the store's
    /// queue, by the same serial numbers.
    pub(super) run: BTreeMap<u64, QueueOrder>,
    pub(super) gate: GrantState,
}

/// The place of a request in the store's queue: the revision that made it, and its place among the
/// requests of that revision.
pub(crate) type QueueOrder = (i64, u64);

/// Whether requests for an owned name are granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrantState {
    /// They are.
    Open,
    /// No more requests are granted, because the name is being given up, or because it is not
    /// certain that it is still owned.
    Closed,
    /// No more requests are granted, and the name cannot be given up, because the store has refused to
    /// write its locks.
    Stuck,
}

/// What has become of a request for an owned name.
#[derive(Debug)]
pub(crate) enum LocalOutcome {
    /// The request is answered.
    Answered {
        /// The answer.
        answer: Answer,
        /// The wakers of the callers from whom the lock was taken.
        wakers: Vec<Waker>,
        /// The request's own waker, which has to be dropped.
        own: Option<Waker>,
    },
    /// The request waits. The thread has to be told if the agent has no lease yet, or if the name
    /// is not granted here any more.
    Waits {
        /// Whether the thread need not be told.
        is_known: bool,
    },
}

/// What becomes of requests when a name begins to be owned.
#[derive(Debug, Default)]
pub(crate) struct Started {
    /// The wakers to call.
    pub(crate) wakers: Vec<Waker>,
    /// Keys that are not in the store any more, and the requests that had them.
    pub(crate) freed: Vec<(RequestKey, RequestId)>,
    /// Whether a request cannot be granted here, because its agent's locks stand under another
    /// lease.
    pub(crate) has_strangers: bool,
    /// Agents that wait and have no lease yet.
    pub(crate) without_lease: Vec<AgentSerial>,
}

/// How an owned name is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// How often the name was granted.
    pub(crate) granted: u64,
    /// How the name is held, if it is.
    pub(crate) held: Option<Mode>,
    /// Whether the name is held, or waited for.
    pub(crate) is_used: bool,
    /// Whether the name is owned for a run alone.
    pub(crate) is_for_run: bool,
    /// Whether requests for it are granted.
    pub(crate) gate: GrantState,
}

impl Usage {
    /// How agents of this connection hold the name, if they do for certain, and if that keeps out a lock of
    /// this mode.
    pub(crate) fn keeps_out(self, mode: Mode) -> Option<Mode> {
        let held = self.held.filter(|_| self.gate == GrantState::Open)?;
        ((mode, held) != (Mode::Shared, Mode::Shared)).then_some(held)
    }

    /// Whether the name has to be given up, because no more requests are granted and all locks have
    /// ended.
    pub(crate) fn is_over(&self) -> bool {
        self.held.is_none() && self.gate != GrantState::Open || !self.is_used && self.is_for_run
    }
}

impl Owned {
    pub(super) fn admits(&self, mode: Mode) -> bool {
        match mode {
            Mode::Exclusive => !self.exclusive && self.shared == 0,
            Mode::Shared => !self.exclusive,
        }
    }

    /// Counts the grant of a lock of this mode.
    pub(super) fn grant(&mut self, mode: Mode) -> Grant {
        match mode {
            Mode::Exclusive => self.exclusive = true,
            Mode::Shared => self.shared += 1,
        }
        self.granted += 1;
        // There are no more tokens after this one.
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

    /// How the name is held, if it is.
    pub(super) fn held(&self) -> Option<Mode> {
        let shared = (self.shared > 0).then_some(Mode::Shared);
        if self.exclusive { Some(Mode::Exclusive) } else { shared }
    }

    /// Counts the end of a lock of this mode.
    pub(super) fn release(&mut self, mode: Mode) {
        match mode {
            Mode::Exclusive => self.exclusive = false,
            Mode::Shared => self.shared = self.shared.saturating_sub(1),
        }
    }

    /// Whether this agent can be granted the name, which is so if its locks end with the lease of
    /// the owner key.
    pub(super) fn is_of(&self, agent: &Agent) -> bool {
        agent.lease.is_some_and(|share| share.lease == self.lease) && !is_over(agent.ends)
    }
}
