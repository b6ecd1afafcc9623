//! References to an agent, by which guards and pending requests count themselves.

use std::{
    sync::OnceLock,
    task::{Poll, Waker},
};

use navlock_engine::AgentId;

use crate::{
    Lost,
    agent::Agent,
    agent_state::{AgentState, KeptAgent},
    backend::{AnyBackend, PackedTicket},
    buckets::OpenBucket,
    sync::Arc,
    thread_group,
};

/// A reference to an agent, one for each group of threads. Guards and pending requests share it and count
/// themselves here and not on the agent, so that two threads which use one handle write to two counters
/// and do not slow each other.
///
/// The reference keeps the agent alive, unless the backend is the in-memory one. That backend knows which
/// agents have something, and keeps these agents alive by itself ([`AnyBackend::leave`]); there the
/// reference keeps nothing but memory.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct AgentRef {
    pub(crate) id: AgentId,
    pub(crate) state: Arc<AgentState>,
    /// The agent's bucket, which a guard needs to release its lock.
    bucket: Arc<OpenBucket>,
    /// The agent, if this reference keeps it alive.
    keeps: Option<Arc<Agent>>,
}

impl AgentRef {
    fn new(agent: &Arc<Agent>) -> Self {
        let bucket = Arc::clone(&agent.bucket.bucket);
        Self {
            id: agent.id,
            state: Arc::clone(&agent.state),
            keeps: (!bucket.backend.keeps_agents()).then(|| Arc::clone(agent)),
            bucket,
        }
    }

    /// Whether this is a reference to the agent.
    #[inline]
    pub(crate) fn is_of(&self, agent: &Agent) -> bool {
        Arc::ptr_eq(&self.state, &agent.state)
    }

    #[inline]
    pub(crate) fn backend(&self) -> &AnyBackend {
        &self.bucket.backend
    }

    /// Whether nothing ends with this reference, so that it may be kept for longer than it is
    /// needed.
    #[inline]
    pub(crate) fn keeps_only_memory(&self) -> bool {
        self.keeps.is_none()
    }

    /// How the lock of the ticket was lost, if it is.
    pub(crate) fn lost(&self, ticket: PackedTicket) -> Option<Lost> {
        let lost = self.backend().lost(ticket.unpack())?;
        Some(self.state.explain_lost(lost))
    }

    /// Ready once the lock of the ticket is lost. The backend then calls this waker.
    pub(crate) fn poll_lost(&self, ticket: PackedTicket, waker: &Waker) -> Poll<Lost> {
        let lost = self.backend().poll_lost(ticket.unpack(), waker);
        lost.map(|lost| self.state.explain_lost(lost))
    }

    /// Ends what the ticket stands for.
    #[inline]
    pub(crate) fn finish(&self, ticket: PackedTicket) {
        match self.backend() {
            AnyBackend::Memory(memory) => drop(memory.finish_as(self.id, ticket.unpack())),
            AnyBackend::Other(other) => other.finish(ticket.unpack()),
        }
    }

    /// Ends the lock of the ticket. Returns how the lock was lost before, if it was.
    #[inline]
    pub(crate) fn release(&self, ticket: PackedTicket) -> Option<Lost> {
        let lost = match self.backend() {
            AnyBackend::Memory(memory) => memory.finish_as(self.id, ticket.unpack()),
            AnyBackend::Other(other) => {
                let lost = other.lost(ticket.unpack());
                other.finish(ticket.unpack());
                lost
            }
        };
        lost.map(|lost| self.state.explain_lost(lost))
    }
}

/// An agent with its references, each made when it is first used.
pub(crate) struct AgentRefs {
    pub(crate) agent: Arc<Agent>,
    /// The reference that was used first, with its group: mostly the only one. The group stands
    /// here and not behind the pointer, where guards count themselves, so a thread of another group
    /// that reads it does not wait for those guards.
    first: OnceLock<(usize, Arc<AgentRef>)>,
    /// The references by group, once there is a second one.
    others: OnceLock<Box<[OnceLock<Arc<AgentRef>>; thread_group::COUNT]>>,
}

impl AgentRefs {
    pub(crate) fn new(agent: Arc<Agent>) -> Self {
        Self { agent, first: OnceLock::new(), others: OnceLock::new() }
    }

    /// The reference of this thread's group.
    pub(crate) fn here(&self) -> &Arc<AgentRef> {
        let group = thread_group::current();
        let new = || Arc::new(AgentRef::new(&self.agent));
        let (first, its) = self.first.get_or_init(|| (group, new()));
        if *first == group {
            return its;
        }
        self.others.get_or_init(Box::default)[group].get_or_init(new)
    }
}

impl Drop for AgentRefs {
    fn drop(&mut self) {
        let agent = &self.agent;
        agent.backend().leave(agent.id, || Arc::clone(agent) as KeptAgent);
    }
}
