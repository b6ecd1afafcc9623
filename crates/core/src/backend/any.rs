//! Backends and reaches. The in-memory ones are known by type.

use std::{
    task::{Poll, Waker},
    time::Duration,
};

use navlock_engine::{AgentId, FencingToken, RequestKind, ResourceName};

use super::{
    Answer, Backend, Claim, InspectFuture, MemoryBackend, MemoryReach, PositionFuture, QueryFuture,
    Reach, ReclaimFuture, SightFuture, Term, Ticket,
};
use crate::{
    AgentInfo, ClientId, Error, Lost,
    agent_state::{AgentState, KeptAgent},
    look::{InDeadlock, LockId, Patience},
    sighting::NameRef,
    sync::Arc,
};

/// A backend. The in-memory one is known by type, so that its calls are inlined into the handles.
#[derive(Debug)]
pub(crate) enum AnyBackend {
    Memory(MemoryBackend),
    Other(Box<dyn Backend>),
}

impl AnyBackend {
    /// Makes an agent known, before its first request.
    pub(crate) fn open(&self, state: &Arc<AgentState>) -> AgentId {
        match self {
            Self::Memory(memory) => memory.open(state),
            Self::Other(other) => other.open_agent(state.client_id()),
        }
    }

    /// Whether an agent lives on after its handle has [left](Self::leave), as long as it has locks
    /// or requests.
    pub(crate) fn keeps_agents(&self) -> bool {
        matches!(self, Self::Memory(_))
    }

    /// Says that the agent has no handle any more, and makes no requests. A backend that
    /// [keeps agents](Self::keeps_agents) keeps this agent alive, by the value of `keep`, until the
    /// agent has no locks and requests.
    pub(crate) fn leave(&self, agent: AgentId, keep: impl Fn() -> KeptAgent) {
        if let Self::Memory(memory) = self {
            memory.leave(agent, keep);
        }
    }

    /// Does what [`poll_request`](Backend::poll_request) does and, if the lock was granted, what
    /// [`poll_lost`](Backend::poll_lost) does.
    #[inline]
    pub(crate) fn poll_watched(
        &self,
        ticket: Ticket,
        waker: &Waker,
    ) -> Poll<Result<Answer, Error>> {
        match self {
            Self::Memory(memory) => memory.poll(ticket, waker, true),
            Self::Other(other) => {
                let answer = other.poll_request(ticket, waker);
                if !matches!(answer, Poll::Ready(Ok(Answer::Granted(_)))) {
                    return answer;
                }
                match other.poll_lost(ticket, waker) {
                    Poll::Ready(lost) => Poll::Ready(Err(lost.into())),
                    Poll::Pending => answer,
                }
            }
        }
    }

    /// How many locks were lost in the lane of this ticket. `None` if that cannot be told.
    #[inline]
    pub(crate) fn losses(&self, ticket: Ticket) -> Option<u64> {
        match self {
            Self::Memory(memory) => Some(memory.losses(ticket)),
            Self::Other(_) => None,
        }
    }
}

/// Calls the same method of the backend, of whichever type it is.
macro_rules! dispatch {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self {
            Self::Memory(memory) => memory.$method($($argument),*),
            Self::Other(other) => other.$method($($argument),*),
        }
    };
}

impl Backend for AnyBackend {
    fn lanes(&self) -> usize {
        dispatch!(self.lanes())
    }

    fn open_agent(&self, client_id: ClientId) -> AgentId {
        dispatch!(self.open_agent(client_id))
    }

    fn describe(&self, agent: AgentId, info: &AgentInfo) {
        dispatch!(self.describe(agent, info));
    }

    fn close_agent(&self, agent: AgentId) {
        dispatch!(self.close_agent(agent));
    }

    fn terminate_all(&self, agents: &[AgentId]) {
        dispatch!(self.terminate_all(agents));
    }

    fn terminate(&self, agent: AgentId) {
        dispatch!(self.terminate(agent));
    }

    #[inline]
    fn request(
        &self,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
        why: &str,
        waker: &Waker,
    ) -> Result<(Ticket, Poll<Answer>), Error> {
        dispatch!(self.request(agent, name, kind, why, waker))
    }

    #[inline]
    fn poll_request(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Answer, Error>> {
        dispatch!(self.poll_request(ticket, waker))
    }

    fn poll_lost(&self, ticket: Ticket, waker: &Waker) -> Poll<Lost> {
        dispatch!(self.poll_lost(ticket, waker))
    }

    fn lost(&self, ticket: Ticket) -> Option<Lost> {
        dispatch!(self.lost(ticket))
    }

    fn stolen_by(&self, ticket: Ticket) -> Option<ClientId> {
        dispatch!(self.stolen_by(ticket))
    }

    fn serial(&self, ticket: Ticket) -> u64 {
        dispatch!(self.serial(ticket))
    }

    fn put_inside(&self, ticket: Ticket, lock: LockId) {
        dispatch!(self.put_inside(ticket, lock));
    }

    #[inline]
    fn made(&self, ticket: Ticket) {
        dispatch!(self.made(ticket));
    }

    fn note_patience(&self, ticket: Ticket, patience: Patience) {
        dispatch!(self.note_patience(ticket, patience));
    }

    fn surrounding(&self) -> &[LockId] {
        dispatch!(self.surrounding())
    }

    fn deadlock(&self, ticket: Ticket) -> Option<InDeadlock> {
        dispatch!(self.deadlock(ticket))
    }

    fn fail_in_deadlock(&self, ticket: Ticket) -> Option<InDeadlock> {
        dispatch!(self.fail_in_deadlock(ticket))
    }

    #[inline]
    fn finish(&self, ticket: Ticket) {
        dispatch!(self.finish(ticket));
    }

    fn query(&self) -> QueryFuture<'_> {
        dispatch!(self.query())
    }

    fn inspect(&self, name: Option<ResourceName>) -> InspectFuture<'_> {
        dispatch!(self.inspect(name))
    }

    fn look(&self) -> SightFuture<'_> {
        dispatch!(self.look())
    }

    fn name_ref(&self, name: &ResourceName) -> NameRef {
        dispatch!(self.name_ref(name))
    }

    fn look_at(&self, name: NameRef, with_silence: bool) -> SightFuture<'_> {
        dispatch!(self.look_at(name, with_silence))
    }

    fn position(&self, name: ResourceName, client_id: ClientId) -> PositionFuture<'_> {
        dispatch!(self.position(name, client_id))
    }

    fn ends(&self, agent: AgentId) -> Option<Duration> {
        dispatch!(self.ends(agent))
    }

    fn term(&self, agent: AgentId) -> Option<Term> {
        dispatch!(self.term(agent))
    }

    fn lease(&self, agent: AgentId) -> Option<Vec<u8>> {
        dispatch!(self.lease(agent))
    }

    fn reclaim(&self, agent: AgentId, claims: Vec<Claim>) -> ReclaimFuture<'_> {
        dispatch!(self.reclaim(agent, claims))
    }

    fn raise_tokens(&self, least: FencingToken) -> bool {
        dispatch!(self.raise_tokens(least))
    }

    fn retire(&self) {
        dispatch!(self.retire());
    }
}

/// A reach. The in-memory one is known by type.
#[derive(Debug)]
pub(crate) enum AnyReach {
    Memory(MemoryReach),
    Other(Box<dyn Reach>),
}

impl AnyReach {
    pub(crate) fn open_bucket(&self, name: &str) -> AnyBackend {
        match self {
            Self::Memory(reach) => AnyBackend::Memory(reach.open_memory_bucket()),
            Self::Other(reach) => AnyBackend::Other(reach.open_bucket(name)),
        }
    }

    /// The reach as a trait object: for calls that are no part of the path of a lock.
    pub(crate) fn as_dyn(&self) -> &dyn Reach {
        match self {
            Self::Memory(memory) => memory,
            Self::Other(other) => &**other,
        }
    }
}
