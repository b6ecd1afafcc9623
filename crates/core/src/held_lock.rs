//! A lock that is held: what a guard is a pointer to.

use std::{
    sync::{Arc as StdArc, OnceLock},
    task::{Poll, Waker},
};

use crate::{
    Lost, agent_ref::AgentRef, backend::PackedTicket, lock::Lock, measure::Holds, sync::Arc,
    watch::Watch,
};

/// A lock that was granted, and what its guard needs to release it.
pub(crate) struct HeldLock {
    pub(crate) lock: Lock,
    pub(crate) ticket: PackedTicket,
    pub(crate) agent: Arc<AgentRef>,
    pub(crate) holds: Holds,
    /// The watch, which is made when somebody first watches for the loss of the lock. Few locks are
    /// ever watched.
    pub(crate) watch: OnceLock<StdArc<Watch>>,
}

impl HeldLock {
    /// How the lock was lost, if it is.
    pub(crate) fn lost(&self) -> Option<Lost> {
        self.agent.lost(self.ticket)
    }

    /// Ready once the lock is lost. The backend then calls this waker and no other.
    pub(crate) fn poll_lost(&self, waker: &Waker) -> Poll<Lost> {
        self.agent.poll_lost(self.ticket, waker)
    }

    /// Ready once the lock is lost. The backend then wakes all who [watch](Self::watch).
    pub(crate) fn poll_lost_for_all(&self) -> Poll<Lost> {
        self.poll_lost(&Waker::from(StdArc::clone(self.watch())))
    }

    pub(crate) fn watch(&self) -> &StdArc<Watch> {
        self.watch.get_or_init(Default::default)
    }
}
