//! Backends and reaches. The in-memory ones are known by type.

use std::{
    ops::Deref,
    task::{Poll, Waker},
};

use navlock_engine::AgentId;

use super::{Answer, Backend, MemoryBackend, MemoryReach, Reach, Ticket};
use crate::{
    Error,
    agent_state::{AgentState, KeptAgent},
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

    /// See [`Backend::poll_request`].
    #[inline]
    pub(crate) fn poll_request(
        &self,
        ticket: Ticket,
        waker: &Waker,
    ) -> Poll<Result<Answer, Error>> {
        match self {
            Self::Memory(memory) => memory.poll_request(ticket, waker),
            Self::Other(other) => other.poll_request(ticket, waker),
        }
    }

    /// See [`Backend::made`]. The in-memory backend has nothing to do.
    #[inline]
    pub(crate) fn made(&self, ticket: Ticket) {
        if let Self::Other(other) = self {
            other.made(ticket);
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

/// All other calls are no part of the path of a lock that is free.
impl Deref for AnyBackend {
    type Target = dyn Backend;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Memory(memory) => memory,
            Self::Other(other) => &**other,
        }
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
