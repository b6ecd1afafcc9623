//! The table of agents, requests and locks, with the states that callers see.
//!
//! Callers and the thread that speaks to the store share the table. Callers make and end entries. The
//! thread sets their states, except for names that the machine owns (`table/owned.rs`), whose states callers set
//! themselves.

mod agents;
mod entries;
mod handover;
mod known;
mod nested;
mod owned;
mod owned_name;
#[cfg(test)]
pub(crate) mod simulation;

use std::{
    collections::{HashMap, HashSet},
    mem,
    task::Waker,
};

use navlock_core::{
    Error, Lost, ResourceName,
    host::{RequestDetails, RequestKind, clip_bytes},
    look::LockId,
};
use navlock_engine::{AgentId, RequestId};
use slab::Slab;

use crate::{
    clock::Uptime,
    failure::gone,
    hash::HashState,
    lease::Share,
    names::{NameKey, RequestKey},
    notes::{LONGEST_TEXT, RequestNotes},
};

pub(crate) use self::{
    entries::{Again, AgentSerial, Finished, State, Status},
    handover::Handover,
    owned_name::{LocalOutcome, QueueOrder, Started},
};
use self::{
    entries::{Agent, OnLeaseEnd, Request, forget_id, is_over, narrow},
    owned_name::Owned,
};

/// Agents and requests.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// What the store is called.
    store: &'static str,
    agents: Slab<Agent>,
    requests: Slab<Request>,
    /// The requests for each name in each bucket, without the requests of agents that were
    /// terminated.
    names: HashMap<(u64, NameKey), HashSet<usize, HashState>, HashState>,
    /// Where each request is of an agent that has not ended, by the id by which all machines know it.
    ids: HashMap<LockId, usize, HashState>,
    /// The names that this connection owns: requests for them are granted here.
    owned: HashMap<(u64, NameKey), Owned, HashState>,
    /// The share of the connection itself, and of no agent, in the last lease that it had.
    pub(crate) own_share: Option<Share>,
    /// The buckets, by name, that are in use or have an operation on its way.
    buckets: HashMap<String, OpenBucket>,
    next_bucket: u64,
    next_request: u64,
    next_agent: AgentSerial,
    /// Whether nobody speaks to the store any more.
    gone: bool,
}

#[derive(Debug)]
struct OpenBucket {
    number: u64,
    uses: usize,
}

/// What has ended with an agent.
#[derive(Debug, Default)]
pub(crate) struct Terminated {
    /// The wakers to call.
    pub(crate) wakers: Vec<Waker>,
    /// What the store may know of.
    pub(crate) ended: Vec<(RequestId, Finished)>,
    /// Names that were owned for a run that is over.
    pub(crate) over: Vec<(u64, NameKey)>,
}

/// What follows from the end of a request or lock.
#[derive(Debug)]
pub(crate) struct Ending {
    /// The last state, for the caller to drop without the table locked.
    pub(crate) state: State,
    /// What the store may know of.
    pub(crate) finished: Option<Finished>,
    /// The wakers to call.
    pub(crate) wakers: Vec<Waker>,
    /// The name, if it was owned for a run that is over.
    pub(crate) over: Option<(u64, NameKey)>,
}

/// What follows from a request that was made inside a lock.
#[derive(Debug, Default)]
pub(crate) struct Nested {
    /// The agent whose keys have to say more.
    pub(crate) said: Option<AgentSerial>,
    /// Names that this connection owns, and whose locks others have to see.
    pub(crate) hidden: Vec<(u64, NameKey)>,
}

/// A request that is about to be sent.
#[derive(Debug)]
pub(crate) struct Sent {
    /// The name, if keys have only a hash of it.
    pub(crate) name: Option<ResourceName>,
    /// What is asked for.
    pub(crate) kind: RequestKind,
    /// The key that it has from now on.
    pub(crate) key: RequestKey,
    /// Its [serial number](Table::serial).
    pub(crate) serial: u64,
    /// What its caller has said of it.
    pub(crate) said: RequestNotes,
}

/// A lock or request of an agent that the store may know of.
#[derive(Debug)]
pub(crate) struct KnownOf {
    /// Its name.
    pub(crate) name: NameKey,
    /// Its key.
    pub(crate) key: RequestKey,
    /// What its caller has said of it.
    pub(crate) said: RequestNotes,
}

impl Table {
    /// The table of a connection to the store that is called so in messages.
    pub(crate) fn new(store: &'static str) -> Self {
        Self { store, ..Self::default() }
    }

    /// Opens the bucket of this name once more. Returns its number.
    pub(crate) fn open_bucket(&mut self, name: &str) -> u64 {
        if let Some(open) = self.buckets.get_mut(name) {
            open.uses += 1;
            return open.number;
        }
        let number = self.next_bucket;
        self.next_bucket += 1;
        self.buckets.insert(name.to_owned(), OpenBucket { number, uses: 1 });
        number
    }

    /// Ends one use of the bucket. To be called when everything that follows from this use has been
    /// heard.
    pub(crate) fn close_bucket(&mut self, name: &str) {
        if let Some(open) = self.buckets.get_mut(name) {
            open.uses -= 1;
        }
    }

    /// Forgets the bucket if nobody uses it. Returns whether nobody does.
    pub(crate) fn forget_bucket(&mut self, name: &str) -> bool {
        let is_unused = self.buckets.get(name).is_none_or(|open| open.uses == 0);
        if is_unused {
            self.buckets.remove(name);
        }
        is_unused
    }

    /// Notes a request. Returns its id, and its agent's number.
    ///
    /// # Errors
    ///
    /// [`Error::Terminated`] if the agent has ended, [`Error::Unreachable`] if nobody speaks to the store any more.
    pub(crate) fn request(
        &mut self,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
        details: RequestDetails<'_>,
        waker: &Waker,
    ) -> Result<(RequestId, AgentSerial), Error> {
        if self.gone {
            return Err(gone(self.store));
        }
        let found = match self.agents.get_mut(agent.index()) {
            Some(found) if !found.terminated => found,
            _ => return Err(Error::Terminated),
        };
        // `clone` is the caller's code, so it is called before anything is changed.
        let state = State::Pending(waker.clone());
        let serial = self.next_request;
        self.next_request += 1;
        let (whose, bucket) = (found.serial, found.bucket);
        let mut request = Request::new(serial, agent, (bucket, name.clone()), kind, state);
        request.lock_serial = details.serial.unwrap_or(serial);
        clip_bytes(details.why, LONGEST_TEXT).clone_into(&mut request.said.why);
        Ok((self.insert(agent, request), whose))
    }

    fn insert(&mut self, agent: AgentId, request: Request) -> RequestId {
        let (serial, of, lock_serial) = (request.serial, request.of.clone(), request.lock_serial);
        let index = self.requests.insert(request);
        let agent = &mut self.agents[agent.index()];
        agent.requests.insert(index);
        self.ids.insert(LockId { client_id: agent.client_id, serial: lock_serial }, index);
        self.names.entry(of).or_default().insert(index);
        RequestId::from_parts(narrow(index), serial)
    }

    /// Ends a request or lock and forgets it.
    pub(crate) fn finish(&mut self, id: RequestId) -> Option<Ending> {
        self.find(id)?;
        let freed = self.end_here(id.index());
        let request = self.requests.remove(id.index());
        if let Some(agent) = request.agent {
            let agent = &mut self.agents[agent.index()];
            agent.requests.remove(&id.index());
            let known = LockId { client_id: agent.client_id, serial: request.lock_serial };
            forget_id(&mut self.ids, known, id.index());
            unname(&mut self.names, &request.of, id.index());
        }
        let agent = request.agent.and_then(|agent| self.agent(agent));
        let finished = request.key.map(|key| request.finished(key, agent));
        let wakers = freed.as_ref().map(|of| self.process(of)).unwrap_or_default();
        let over = freed.filter(|of| self.is_run_over(of));
        Some(Ending { state: request.state, finished, wakers, over })
    }

    fn find(&mut self, id: RequestId) -> Option<&mut Request> {
        self.requests.get_mut(id.index()).filter(|request| request.serial == id.serial())
    }

    /// The state of a request, if it is not forgotten. Also whether it is a lock that is lost by
    /// the clock although nobody has said so yet.
    pub(crate) fn state(&mut self, id: RequestId) -> Option<(&mut State, bool)> {
        let agent = self.find(id)?.agent;
        let ends = agent.and_then(|agent| self.agents.get(agent.index())?.ends);
        let request = self.find(id)?;
        let is_held = matches!(request.state, State::Held(..));
        let is_over = is_over(ends) || is_over(request.ends);
        Some((&mut request.state, is_held && is_over))
    }

    /// The state of a request, for the thread.
    pub(crate) fn status(&mut self, id: RequestId) -> Status {
        match self.find(id) {
            None => Status::Absent,
            Some(request) => request.status(),
        }
    }

    /// Notes that the store may know of the request from now on. `None` if nobody wants the request any
    /// more.
    pub(crate) fn send(
        &mut self,
        id: RequestId,
        key: impl FnOnce(RequestId) -> RequestKey,
    ) -> Option<Sent> {
        let request = self.find(id)?;
        // This connection may have owned the name meanwhile, and may have written the request then.
        let is_known = request.is_here || request.key.is_some();
        if !matches!(request.state, State::Pending(_)) || is_known {
            return None;
        }
        let key = key(id);
        request.key = Some(key);
        let (name, said) = (request.hashed_name(), request.said.clone());
        Some(Sent { name, kind: request.kind, key, serial: request.lock_serial, said })
    }

    /// Notes that the request was not sent. Returns the key that it would have had.
    pub(crate) fn keep_back(&mut self, id: RequestId) -> Option<RequestKey> {
        self.find(id)?.key.take()
    }

    /// Notes that the store does not know of the request after all. Returns its agent, if the request is
    /// still wanted.
    pub(crate) fn take_back(&mut self, id: RequestId) -> Option<AgentSerial> {
        let request = self.find(id)?;
        request.key = None;
        if !matches!(request.state, State::Pending(_)) {
            return None;
        }
        let agent = request.agent?;
        self.agent(agent)
    }

    /// The name of the request, as it is spelled in keys.
    pub(crate) fn name_key(&mut self, id: RequestId) -> Option<NameKey> {
        Some(self.find(id)?.of.1.clone())
    }

    /// The agent of the request.
    pub(crate) fn agent_of(&mut self, id: RequestId) -> Option<AgentSerial> {
        self.find(id)?.agent.and_then(|agent| self.agent(agent))
    }

    /// Notes that a request waits since this revision.
    pub(crate) fn queued(&mut self, id: RequestId, revision: i64) {
        if let Some(request) = self.find(id) {
            request.queued = revision;
        }
    }

    /// Answers a request, if it waits. Returns the waker to call.
    pub(crate) fn answer(&mut self, id: RequestId, answer: State) -> Option<Waker> {
        let agent = self.find(id)?.agent;
        let ends = agent.and_then(|agent| self.agents.get(agent.index())?.ends);
        // The answer is too late: the caller is about to be told that the lease is over. Or the
        // agent was reclaimed: it will be told what has become of the request together with its
        // lease, which may have ended.
        if is_over(ends) {
            return None;
        }
        let request = self.find(id).filter(|of| matches!(of.state, State::Pending(_)))?;
        match mem::replace(&mut request.state, answer) {
            State::Pending(waker) => Some(waker),
            _ => None,
        }
    }

    /// Tells a request that does not wait, and was not sent, that the name is not to be had. Returns the waker
    /// to call.
    pub(crate) fn refuse(&mut self, id: RequestId) -> Option<Waker> {
        let request = self.find(id).filter(|request| request.key.is_none())?;
        let waits = !matches!(request.kind, RequestKind::IfAvailable(_));
        if waits { None } else { self.answer(id, State::Unavailable) }
    }

    /// Notes that a lock has gone. Returns the wakers to call.
    pub(crate) fn lose(&mut self, id: RequestId, how: Lost) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let agent = self.find(id).and_then(|request| request.agent);
        let ends = agent.and_then(|agent| self.agents.get(agent.index())?.ends);
        // This is too late, as above.
        if let Some(request) = self.find(id).filter(|_| !is_over(ends)) {
            request.state.end(how.into(), how, &mut wakers);
        }
        wakers
    }

    /// Notes a request that another connection has made. It cannot be answered before the agent
    /// has its lease: see [`revive`](Self::revive).
    pub(crate) fn reclaim(
        &mut self,
        serial: AgentSerial,
        agent: AgentId,
        name: ResourceName,
        kind: RequestKind,
        (lock_serial, key): (u64, RequestKey),
        is_lock: bool,
    ) -> Option<RequestId> {
        let found = self.agents.get_mut(agent.index()).filter(|found| found.serial == serial)?;
        if found.terminated {
            return None;
        }
        found.ends = Some(Uptime::default());
        let (serial, bucket) = (self.next_request, found.bucket);
        self.next_request += 1;
        let state = State::Pending(Waker::noop().clone());
        let waits = kind.waits() && !is_lock;
        let on_lease_end = if waits { OnLeaseEnd::Repeat } else { OnLeaseEnd::Fail };
        let made = Request::new(serial, agent, (bucket, name), kind, state);
        let request = Request { key: Some(key), lock_serial, on_lease_end, ..made };
        Some(self.insert(agent, request))
    }

    /// Notes that nobody speaks to the store any more. Returns the wakers to call.
    pub(crate) fn orphan(&mut self) -> Vec<Waker> {
        self.gone = true;
        // This connection grants nothing any more either, and keeps no queues.
        self.owned.clear();
        let mut wakers = Vec::new();
        for (_, request) in &mut self.requests {
            request.is_here = false;
            request.state.end(gone(self.store), Lost::Disconnected, &mut wakers);
        }
        wakers
    }
}

/// Removes a request from those for this name.
fn unname(
    names: &mut HashMap<(u64, NameKey), HashSet<usize, HashState>, HashState>,
    of: &(u64, NameKey),
    index: usize,
) {
    if let Some(all) = names.get_mut(of) {
        all.remove(&index);
        if all.is_empty() {
            names.remove(of);
        }
    }
}
