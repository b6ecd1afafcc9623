//! Agents, requests and locks, as they stand in the table.

use std::{collections::HashSet, mem, task::Waker};

use navlock_core::{
    Error, Lost, ResourceName,
    host::{Answer, RequestKind},
    look::LockId,
};
use navlock_engine::{AgentId, RequestId};

use crate::{
    clock::{Uptime, monotonic},
    ended::Ended,
    hash::HashState,
    keys::{NameKey, Phase, RequestKey},
    lease::{LeaseTimes, Share},
    tokens::Grant,
    values::RequestNotes,
};

/// An agent's number, never used twice.
pub(crate) type AgentSerial = u64;

pub(super) struct Agent {
    pub(super) serial: AgentSerial,
    pub(super) bucket: u64,
    pub(super) terminated: bool,
    /// When its lease is over, if it has one.
    ///
    /// Who asks after a lock asks this too: a process that was stopped knows before its threads do
    /// anything else that it has lost.
    pub(super) ends: Option<Uptime>,
    /// The rest of that, once it has a lease.
    pub(super) term: LeaseTimes,
    /// Under which it has what it has.
    pub(super) lease: Option<Share>,
    pub(super) requests: HashSet<usize, HashState>,
}

pub(super) struct Request {
    pub(super) serial: u64,
    /// `None` once the agent has been terminated: its number may be another's by now.
    pub(super) agent: Option<AgentId>,
    pub(super) name: ResourceName,
    pub(super) kind: RequestKind,
    /// Its bucket, and how its name is spelled in keys.
    pub(super) of: (u64, NameKey),
    /// What it is called in etcd, if that may know of it.
    pub(super) key: Option<RequestKey>,
    /// Its name is ours, and it is known here only.
    pub(super) is_here: bool,
    /// The revision in which it began to wait; 0 until that is known.
    pub(super) queued: i64,
    /// When it was made here.
    pub(super) since: Uptime,
    /// The same on the clock of those who go on with it.
    pub(super) asked: u64,
    /// What becomes of it when its agent's lease ends.
    pub(super) patience: Patience,
    /// What was said of it.
    pub(super) said: RequestNotes,
    /// The same of locks of which nobody else knows yet.
    pub(super) inside_hidden: Vec<LockId>,
    pub(super) state: State,
}

/// What becomes of a request that is pending when its agent's lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// It is asked for again if it had a place in the queue.
    Waits,
    /// It is asked for again until there is a lease: it had a place.
    HasWaited,
    /// It fails: it does not wait, or is a lock that was to be gone on with.
    None,
}

/// A request that is to be made again, since all that etcd knew of it is gone.
pub(crate) struct Again {
    /// Of which bucket and name.
    pub(crate) of: (u64, NameKey),
    pub(crate) id: RequestId,
    /// What it was called, if etcd may know of it.
    pub(crate) key: Option<RequestKey>,
}

/// Where a request or lock stands.
pub(crate) enum State {
    Pending(Waker),
    Held(Grant, Vec<Waker>),
    Unavailable,
    Failed(Error),
    Lost(Lost),
}

/// The same for the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Waiting, since this revision; 0 if that is not known yet.
    Pending(i64),
    Held(Grant),
    /// Answered in another way, and not forgotten yet.
    Ended,
    /// Forgotten: aborted or released.
    Absent,
}

/// A request or lock that was ended, of which etcd may know.
pub(crate) struct Finished {
    /// Of which bucket and name.
    pub(crate) of: (u64, NameKey),
    pub(crate) ended: Ended,
    /// Whose it was, if that has not been terminated.
    pub(crate) agent: Option<AgentSerial>,
    /// Whether it was over already.
    pub(crate) was_over: bool,
}

impl Request {
    /// One that is only known here.
    pub(super) fn new(
        serial: u64,
        agent: AgentId,
        (bucket, name): (u64, ResourceName),
        kind: RequestKind,
        state: State,
    ) -> Self {
        let waits = matches!(kind, RequestKind::Wait(_));
        Self {
            serial,
            agent: Some(agent),
            of: (bucket, NameKey::new(&name)),
            name,
            kind,
            key: None,
            is_here: false,
            queued: 0,
            since: Uptime::now(),
            asked: monotonic(),
            patience: if waits { Patience::Waits } else { Patience::None },
            said: RequestNotes::default(),
            inside_hidden: Vec::new(),
            state,
        }
    }

    /// Whether it is to be asked for again once its agent's lease has ended.
    pub(super) fn waits_on(&self, how: Lost, waits_on: bool) -> bool {
        match self.patience {
            Patience::None => false,
            // What is on its way comes to nothing through no fault of its own.
            _ if how == Lost::Reset => true,
            Patience::HasWaited => waits_on,
            Patience::Waits => waits_on && self.queued > 0,
        }
    }

    /// Its name, if keys have only a hash of it: then what stands behind them has to say it.
    pub(super) fn hashed_name(&self) -> Option<ResourceName> {
        self.of.1.is_hash().then(|| self.name.clone())
    }

    /// That it is to end, by this key.
    pub(super) fn finished(
        &self,
        id: RequestId,
        key: RequestKey,
        agent: Option<AgentSerial>,
    ) -> Finished {
        let was_over = !matches!(self.state, State::Pending(_) | State::Held(..));
        let only = matches!(self.state, State::Held(..)).then_some(Phase::Held);
        let ended = Ended { id: Some(id), request: key, mode: self.kind.mode(), only };
        Finished { of: self.of.clone(), ended, agent, was_over }
    }

    pub(super) fn status(&self) -> Status {
        // Its agent has ended, and with it all that etcd knows of it.
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
    /// Ends what is pending with an error and what is held as lost; other ends stay as they are.
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

    /// The answer to the request, if it is there.
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
