//! Agents, requests and locks, as they stand in the table.

use std::{
    collections::{HashMap, HashSet},
    mem,
    task::Waker,
};

use navlock_core::{
    ClientId, Error, Lost, Mode, ResourceName,
    host::{Answer, RequestKind},
    look::LockId,
};
use navlock_engine::{AgentId, RequestId};

use crate::{
    clock::Uptime,
    hash::HashState,
    lease::{LeaseTimes, Share},
    names::{NameKey, RequestKey},
    notes::RequestNotes,
    tokens::Grant,
};

/// The serial number of an agent, which is never used twice.
pub(crate) type AgentSerial = u64;

#[derive(Debug)]
pub(super) struct Agent {
    pub(super) serial: AgentSerial,
    pub(super) client_id: ClientId,
    pub(super) bucket: u64,
    pub(super) terminated: bool,
    /// When the agent's lease is over, if it has a lease.
    ///
    /// A caller that asks whether a lock is still held reads this as well. So a process that was
    /// stopped learns that a lock is lost before its threads do anything else.
    pub(super) ends: Option<Uptime>,
    /// All times of that lease, if there is one.
    pub(super) term: LeaseTimes,
    /// The lease that the agent's locks and requests stand under.
    pub(super) lease: Option<Share>,
    pub(super) requests: HashSet<usize, HashState>,
}

#[derive(Debug)]
pub(super) struct Request {
    /// Its number among the requests of this connection.
    pub(super) serial: u64,
    /// Its number among the requests of its agent, by which all machines know it.
    pub(super) lock_serial: u64,
    /// The agent. `None` when the agent has been terminated, because another agent may have its
    /// number by now.
    pub(super) agent: Option<AgentId>,
    pub(super) name: ResourceName,
    pub(super) kind: RequestKind,
    /// The bucket of the request, and how its name is spelled in keys.
    pub(super) of: (u64, NameKey),
    /// The request's key in the store, if the store may know of it.
    pub(super) key: Option<RequestKey>,
    /// Whether this connection owns the request's name, and the store does not know of the request.
    pub(super) is_here: bool,
    /// When the request's lock is lost, if the store does not have it by then. Its agent's lease may last longer.
    pub(super) ends: Option<Uptime>,
    /// The revision in which the request began to wait; 0 until that is known.
    pub(super) queued: i64,
    /// When the request was made here.
    pub(super) since: Uptime,
    /// What becomes of the request when its agent's lease ends.
    pub(super) on_lease_end: OnLeaseEnd,
    /// What its caller has said of the request.
    pub(super) said: RequestNotes,
    pub(super) state: State,
}

/// What becomes of a request that is pending when its agent's lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnLeaseEnd {
    /// The request is made again if it had a place in the queue.
    RepeatIfQueued,
    /// The request is made again until there is a lease, because it had a place in the queue.
    Repeat,
    /// The request fails, because it does not wait, or because it stands for a lock that was
    /// reclaimed.
    Fail,
}

/// A request that has to be made again, because everything that the store knew of it is gone.
#[derive(Debug)]
pub(crate) struct Again {
    /// The bucket and name of the request.
    pub(crate) of: (u64, NameKey),
    /// The request.
    pub(crate) id: RequestId,
    /// The key that the request had, if the store may know of it.
    pub(crate) key: Option<RequestKey>,
}

/// The state of a request or lock.
#[derive(Debug)]
pub(crate) enum State {
    /// It waits, and this waker is called when it is answered.
    Pending(Waker),
    /// It is a lock, and these wakers are called when it is lost.
    Held(Grant, Vec<Waker>),
    /// It could not be granted at once.
    Unavailable,
    /// It has failed.
    Failed(Error),
    /// It was a lock, which is lost.
    Lost(Lost),
}

/// The state of a request or lock, as the thread sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The request waits, since this revision; 0 if that is not known yet.
    Pending(i64),
    /// The request is a lock.
    Held(Grant),
    /// The request was answered in another way, and is not forgotten yet.
    Ended,
    /// The request is forgotten: it was aborted, or the lock was released.
    Absent,
}

/// A request or lock that was ended, and that the store may know of.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The bucket and name of the request.
    pub(crate) of: (u64, NameKey),
    /// The key that it has.
    pub(crate) key: RequestKey,
    /// Its mode.
    pub(crate) mode: Mode,
    /// Whether it was a lock for certain.
    pub(crate) was_held: bool,
    /// The agent of the request, if the agent has not been terminated.
    pub(crate) agent: Option<AgentSerial>,
    /// Whether the request was over already.
    pub(crate) was_over: bool,
}

impl Request {
    /// A request that only this connection knows.
    pub(super) fn new(
        serial: u64,
        agent: AgentId,
        (bucket, name): (u64, ResourceName),
        kind: RequestKind,
        state: State,
    ) -> Self {
        Self {
            serial,
            agent: Some(agent),
            of: (bucket, NameKey::new(&name)),
            name,
            kind,
            key: None,
            is_here: false,
            ends: None,
            queued: 0,
            since: Uptime::now(),
            lock_serial: serial,
            on_lease_end: if kind.waits() { OnLeaseEnd::RepeatIfQueued } else { OnLeaseEnd::Fail },
            said: RequestNotes::default(),
            state,
        }
    }

    /// Whether the request has to be made again when its agent's lease has ended.
    pub(super) fn waits_on(&self, how: Lost) -> bool {
        match self.on_lease_end {
            OnLeaseEnd::Fail => false,
            // A request that is on its way fails without any fault of its own.
            _ if how == Lost::Reset => true,
            OnLeaseEnd::Repeat => true,
            OnLeaseEnd::RepeatIfQueued => self.queued > 0,
        }
    }

    /// The name of the request, if keys have only a hash of it. In this case, the value of its key
    /// has to contain the name.
    pub(super) fn hashed_name(&self) -> Option<ResourceName> {
        self.of.1.is_hash().then(|| self.name.clone())
    }

    /// What the thread is told when the request has to end and has this key.
    pub(super) fn finished(&self, key: RequestKey, agent: Option<AgentSerial>) -> Finished {
        let was_over = !matches!(self.state, State::Pending(_) | State::Held(..));
        let (mode, was_held) = (self.kind.mode(), matches!(self.state, State::Held(..)));
        Finished { of: self.of.clone(), key, mode, was_held, agent, was_over }
    }

    pub(super) fn status(&self) -> Status {
        // The agent has ended, and with it everything that the store knows of the request.
        if self.agent.is_none() {
            return Status::Absent;
        }
        match self.state {
            State::Pending(_) => Status::Pending(self.queued),
            State::Held(grant, _) => Status::Held(grant),
            _ => Status::Ended,
        }
    }
}

impl State {
    /// Ends a pending request with an error, or a lock as lost. Requests that have ended already
    /// stay as they are.
    pub(super) fn end(&mut self, error: Error, lost: Lost, wakers: &mut Vec<Waker>) {
        let end = match self {
            Self::Pending(_) => Self::Failed(error),
            Self::Held(..) => Self::Lost(lost),
            _ => return,
        };
        match mem::replace(self, end) {
            Self::Pending(waker) => wakers.push(waker),
            Self::Held(_, watchers) => wakers.extend(watchers),
            _ => {}
        }
    }

    /// The answer to the request, if there is one yet.
    pub(crate) fn answer(&self) -> Option<Result<Answer, Error>> {
        match self {
            Self::Pending(_) => None,
            Self::Held(grant, _) => Some(Ok(Answer::Granted(grant.token))),
            Self::Unavailable => Some(Ok(Answer::Unavailable)),
            Self::Failed(error) => Some(Err(error.clone())),
            Self::Lost(lost) => Some(Err((*lost).into())),
        }
    }
}

pub(super) fn is_over(ends: Option<Uptime>) -> bool {
    ends.is_some_and(|ends| ends <= Uptime::now())
}

pub(super) fn narrow(index: usize) -> u32 {
    u32::try_from(index).expect("memory ends before 2^32 agents or requests")
}

/// Forgets that the request with this index has this id. Another one may have it by now, which an agent of another
/// connection had before.
pub(super) fn forget_id(ids: &mut HashMap<LockId, usize, HashState>, id: LockId, index: usize) {
    if ids.get(&id) == Some(&index) {
        ids.remove(&id);
    }
}
