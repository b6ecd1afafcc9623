//! What guards and pending requests know of their agent.

use navlock_engine::AgentId;

use crate::{
    Lost,
    agent::Agent,
    backend::{AnyBackend, Backend, PackedTicket},
    bucket::OpenBucket,
    life::Life,
    sync::Arc,
};

/// What a guard or a pending request knows of its agent, one for each group of threads: it counts
/// itself here and not on the agent, so that two threads which use one handle write to two counters,
/// and do not slow each other.
///
/// Those keep their agent alive. Where the backend is the one in memory, it knows which agents have
/// something, and sees to that itself ([`AnyBackend::leave`]): there a seat keeps nothing but memory.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Seat {
    pub(crate) id: AgentId,
    pub(crate) life: Arc<Life>,
    /// The agent's bucket: a guard needs it to be released.
    bucket: Arc<OpenBucket>,
    /// Who is kept alive by it.
    keeps: Option<Arc<Agent>>,
}

impl Seat {
    pub(crate) fn new(agent: &Arc<Agent>) -> Self {
        let bucket = Arc::clone(&agent.bucket.bucket);
        Self {
            id: agent.id,
            life: Arc::clone(&agent.life),
            keeps: (!bucket.backend.keeps_agents()).then(|| Arc::clone(agent)),
            bucket,
        }
    }

    /// Whether it is one of this agent's.
    #[inline]
    pub(crate) fn is_of(&self, agent: &Agent) -> bool {
        Arc::ptr_eq(&self.life, &agent.life)
    }

    #[inline]
    pub(crate) fn backend(&self) -> &AnyBackend {
        &self.bucket.backend
    }

    /// Whether nothing ends when it does: it may be kept for longer than it is needed.
    #[inline]
    pub(crate) fn keeps_only_memory(&self) -> bool {
        self.keeps.is_none()
    }

    /// How the lock of the ticket was lost, if it is.
    pub(crate) fn lost(&self, ticket: PackedTicket) -> Option<Lost> {
        let lost = self.backend().lost(ticket.unpack())?;
        Some(self.life.explain_lost(lost))
    }

    /// Ends what the ticket stands for.
    #[inline]
    pub(crate) fn finish(&self, ticket: PackedTicket) {
        match self.backend() {
            AnyBackend::Memory(memory) => drop(memory.finish_as(self.id, ticket.unpack())),
            AnyBackend::Other(other) => other.finish(ticket.unpack()),
        }
    }

    /// Ends the lock of the ticket. How it was lost until now, if it was.
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
        lost.map(|lost| self.life.explain_lost(lost))
    }
}
