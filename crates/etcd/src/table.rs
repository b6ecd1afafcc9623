//! What the callers see: agents, requests and locks, and how they stand.
//!
//! Shared between callers and the [thread](crate::thread) that speaks to etcd. Callers make and end
//! entries; the thread says what becomes of them, but for those of names that are [`owned`].

mod entries;
mod owned;
mod owned_name;
#[cfg(test)]
mod shown;

use std::{
    collections::{HashMap, HashSet},
    mem,
    task::Waker,
    time::Duration,
};

use navlock_core::{Error, Lost, ResourceName, host::RequestKind, look::LockId};
use navlock_engine::{AgentId, RequestId};
use slab::Slab;

use crate::{
    clock::Moment,
    failure::{lease_lost, never_queued},
    hash::HashState,
    keys::{NameKey, RequestKey},
    lease::{Share, Span},
    slots::Slots,
    values::{LONGEST_BUCKET, MOST_INSIDE, Outer, Said},
};

#[cfg(test)]
pub(crate) use self::owned_name::HeldHere;
pub(crate) use self::{
    entries::{Again, AgentSerial, Finished, State, Status},
    owned_name::{Begun, Gate, Here, Leaver, Place, Usage},
};
use self::{
    entries::{Agent, Patience, Request, is_over, narrow},
    owned_name::Owned,
};

/// Agents and requests.
#[derive(Default)]
pub(crate) struct Table {
    agents: Slab<Agent>,
    requests: Slab<Request>,
    /// Which requests are of a bucket and a name. Those of agents that were terminated are not.
    names: HashMap<(u64, NameKey), HashSet<usize, HashState>, HashState>,
    /// Where each request is, by its serial number.
    serials: HashMap<u64, usize, HashState>,
    /// The names that are ours: what is asked for of them is granted here.
    owned: HashMap<(u64, NameKey), Owned, HashState>,
    /// What is the connection's own and no agent's, under the last lease that it had.
    own_share: Option<Share>,
    /// By name, those that are in use or of which something is on its way.
    buckets: HashMap<String, OpenBucket>,
    /// Who was made inside locks of which nobody else knows yet.
    inside_hidden: Vec<RequestId>,
    /// Who waits on another etcd, and was made inside such a lock of this one.
    told_where: Vec<(LockId, TellOuter)>,
    next_bucket: u64,
    next_request: u64,
    next_agent: AgentSerial,
    /// There is nobody who speaks to etcd.
    gone: bool,
}

/// What is told what a lock is called.
pub(crate) type TellOuter = Box<dyn FnOnce(Outer) + Send>;

struct OpenBucket {
    number: u64,
    uses: usize,
}

/// What has ended with an agent.
#[derive(Default)]
pub(crate) struct Terminated {
    /// Whom to wake.
    pub(crate) wakers: Vec<Waker>,
    /// What etcd may know of.
    pub(crate) ended: Vec<(RequestId, Finished)>,
    /// Names that were ours for a run that is over.
    pub(crate) over: Vec<(u64, NameKey)>,
}

/// What has come of the end of a request or lock.
pub(crate) struct Ending {
    /// How it stood, for the caller to drop elsewhere.
    pub(crate) state: State,
    /// What etcd may know of.
    pub(crate) finished: Option<Finished>,
    /// Whom to wake.
    pub(crate) wakers: Vec<Waker>,
    /// The name, if it was ours for a run that is over.
    pub(crate) over: Option<(u64, NameKey)>,
}

/// What comes of a request that was made inside a lock.
#[derive(Debug, Default)]
pub(crate) struct Nested {
    /// Of whom there is more to say.
    pub(crate) said: Option<AgentSerial>,
    /// Names that are ours, of which others have to know.
    pub(crate) hidden: Vec<(u64, NameKey)>,
}

/// A request that is about to be sent.
pub(crate) struct Sent {
    pub(crate) name: ResourceName,
    pub(crate) kind: RequestKind,
    pub(crate) key: RequestKey,
    pub(crate) asked: u64,
    pub(crate) said: Said,
}

/// What an agent has or waits for, of which etcd may know.
pub(crate) struct KnownOf {
    pub(crate) name: NameKey,
    pub(crate) key: RequestKey,
    pub(crate) said: Said,
}

impl Table {
    /// The number of the bucket of this name, which has one use more.
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

    /// It has one use less. To be called once all is heard that came of that use.
    pub(crate) fn close_bucket(&mut self, name: &str) {
        if let Some(open) = self.buckets.get_mut(name) {
            open.uses -= 1;
        }
    }

    /// Forgets it if it has no use. Whether it has none.
    pub(crate) fn forget_bucket(&mut self, name: &str) -> bool {
        let is_unused = self.buckets.get(name).is_none_or(|open| open.uses == 0);
        if is_unused {
            self.buckets.remove(name);
        }
        is_unused
    }

    pub(crate) fn open_agent(&mut self, bucket: u64) -> (AgentId, AgentSerial) {
        let serial = self.next_agent;
        self.next_agent += 1;
        let requests = HashSet::default();
        let span = Span::default();
        let (ends, lease) = (None, None);
        let agent = Agent { serial, bucket, terminated: false, ends, span, lease, requests };
        (AgentId::from_index(narrow(self.agents.insert(agent))), serial)
    }

    /// The agent's number for the thread.
    pub(crate) fn agent(&self, agent: AgentId) -> Option<AgentSerial> {
        self.agents.get(agent.index()).map(|agent| agent.serial)
    }

    pub(crate) fn close_agent(&mut self, agent: AgentId) -> Terminated {
        let terminated = self.terminate(agent);
        self.agents.try_remove(agent.index());
        terminated
    }

    /// Ends all that the agent has.
    pub(crate) fn terminate(&mut self, agent: AgentId) -> Terminated {
        let mut all = Terminated::default();
        let Some(Agent { terminated, requests, .. }) = self.agents.get_mut(agent.index()) else {
            return all;
        };
        *terminated = true;
        let mut freed = Vec::new();
        for index in mem::take(requests) {
            freed.extend(self.end_here(index));
            let request = &mut self.requests[index];
            let id = RequestId::from_parts(narrow(index), request.serial);
            // From here on it is to be ended by that, and by nothing else.
            let key = request.key.take();
            all.ended.extend(key.map(|key| (id, request.finished(id, key, None))));
            request.agent = None;
            unname(&mut self.names, &request.of, index);
            request.state.end(Error::Terminated, Lost::Terminated, &mut all.wakers);
        }
        // All of it has ended before anybody else is granted any of it.
        all.wakers.extend(freed.iter().flat_map(|of| self.process(of)));
        all.over.extend(freed.into_iter().filter(|of| self.is_run_over(of)));
        all.ended.sort_by_key(|(id, _)| id.serial());
        all
    }

    /// Notes a request. Its id, and its agent's number.
    pub(crate) fn request(
        &mut self,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
        waker: &Waker,
    ) -> Result<(RequestId, AgentSerial), Error> {
        if self.gone {
            return Err(gone());
        }
        let found = match self.agents.get_mut(agent.index()) {
            Some(found) if !found.terminated => found,
            _ => return Err(Error::Terminated),
        };
        // Foreign code, so before anything is changed.
        let state = State::Pending(waker.clone());
        let serial = self.next_request;
        self.next_request += 1;
        let (whose, bucket) = (found.serial, found.bucket);
        let request = Request::new(serial, agent, (bucket, name.clone()), kind, state);
        Ok((self.insert(agent, request), whose))
    }

    fn insert(&mut self, agent: AgentId, request: Request) -> RequestId {
        let (serial, of) = (request.serial, request.of.clone());
        let index = self.requests.insert(request);
        self.serials.insert(serial, index);
        self.agents[agent.index()].requests.insert(index);
        self.names.entry(of).or_default().insert(index);
        RequestId::from_parts(narrow(index), serial)
    }

    /// Ends a request or lock and forgets it.
    pub(crate) fn finish(&mut self, id: RequestId) -> Option<Ending> {
        self.find(id)?;
        let freed = self.end_here(id.index());
        let request = self.requests.remove(id.index());
        self.serials.remove(&request.serial);
        if let Some(agent) = request.agent {
            self.agents[agent.index()].requests.remove(&id.index());
            unname(&mut self.names, &request.of, id.index());
        }
        let agent = request.agent.and_then(|agent| self.agent(agent));
        let finished = request.key.map(|key| request.finished(id, key, agent));
        let wakers = freed.as_ref().map(|of| self.process(of)).unwrap_or_default();
        let over = freed.filter(|of| self.is_run_over(of));
        Some(Ending { state: request.state, finished, wakers, over })
    }

    fn find(&mut self, id: RequestId) -> Option<&mut Request> {
        self.requests.get_mut(id.index()).filter(|request| request.serial == id.serial())
    }

    /// Where a request stands, if it is not forgotten, and whether it is lost by the clock although
    /// nobody has said so yet.
    pub(crate) fn state(&mut self, id: RequestId) -> Option<(&mut State, bool)> {
        let agent = self.find(id)?.agent;
        let ends = agent.and_then(|agent| self.agents.get(agent.index())?.ends);
        let request = self.find(id)?;
        let is_held = matches!(request.state, State::Held(..));
        Some((&mut request.state, is_held && is_over(ends)))
    }

    pub(crate) fn status(&mut self, id: RequestId) -> Status {
        match self.find(id) {
            None => Status::Absent,
            Some(request) => request.status(),
        }
    }

    /// Notes that etcd may know of it from now on, unless nobody wants it any more.
    pub(crate) fn send(&mut self, id: RequestId, slots: &mut Slots) -> Option<Sent> {
        let request = self.find(id)?;
        // Or it was written by the owner of its name, who we were meanwhile.
        let is_known = request.is_here || request.key.is_some();
        if !matches!(request.state, State::Pending(_)) || is_known {
            return None;
        }
        let key = slots.take(id);
        request.key = Some(key);
        let (name, said) = (request.name.clone(), request.said.clone());
        Some(Sent { name, kind: request.kind, key, asked: request.asked, said })
    }

    /// Notes that it was not sent. What it would have been called.
    pub(crate) fn keep_back(&mut self, id: RequestId) -> Option<RequestKey> {
        self.find(id)?.key.take()
    }

    /// Notes that etcd does not know of it after all. Its agent, if it is still wanted.
    pub(crate) fn take_back(&mut self, id: RequestId) -> Option<AgentSerial> {
        let request = self.find(id)?;
        request.key = None;
        if !matches!(request.state, State::Pending(_)) {
            return None;
        }
        let agent = request.agent?;
        self.agent(agent)
    }

    /// Whose it is.
    pub(crate) fn agent_of(&mut self, id: RequestId) -> Option<AgentSerial> {
        let agent = self.find(id)?.agent?;
        self.agent(agent)
    }

    pub(crate) fn queued(&mut self, id: RequestId, revision: i64) {
        if let Some(request) = self.find(id) {
            request.queued = revision;
        }
    }

    /// Answers a request that waits; changes no other. Whom to wake.
    pub(crate) fn answer(&mut self, id: RequestId, answer: State) -> Option<Waker> {
        let agent = self.find(id)?.agent;
        let ends = agent.and_then(|agent| self.agents.get(agent.index())?.ends);
        // Too late: that its lease is over is about to be told. Or its agent was recalled, and what
        // has become of it is told with its lease, which may have ended.
        if is_over(ends) {
            return None;
        }
        let request = self.find(id)?;
        if !matches!(request.state, State::Pending(_)) {
            return None;
        }
        match mem::replace(&mut request.state, answer) {
            State::Pending(waker) => Some(waker),
            _ => None,
        }
    }

    /// A lock has gone. Whom to wake.
    pub(crate) fn lose(&mut self, id: RequestId, how: Lost) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let agent = self.find(id).and_then(|request| request.agent);
        let ends = agent.and_then(|agent| self.agents.get(agent.index())?.ends);
        // Too late, as above.
        if let Some(request) = self.find(id).filter(|_| !is_over(ends)) {
            request.state.end(how.into(), how, &mut wakers);
        }
        wakers
    }

    /// An agent's lease lasts until then. `false` if it is too late to say so.
    pub(crate) fn renew(&mut self, serial: AgentSerial, agent: AgentId, span: Span) -> bool {
        match self.agents.get_mut(agent.index()) {
            Some(found) if found.serial == serial => {
                let is_late = is_over(found.ends) || is_over(Some(span.ends));
                if !is_late {
                    (found.ends, found.span) = (Some(span.ends), span);
                }
                !is_late
            }
            _ => true,
        }
    }

    /// Whether an agent's lease is over by the clock.
    pub(crate) fn is_over(&self, serial: AgentSerial, agent: AgentId) -> bool {
        self.agents
            .get(agent.index())
            .is_some_and(|found| found.serial == serial && is_over(found.ends))
    }

    /// All that the agent has in etcd is gone, or will be. What it holds is lost; what it waits for is
    /// to be asked for again, if it `waits_on`. What etcd never knew of has no place to lose, and
    /// waits for another lease. Whom to wake, and what to ask for.
    pub(crate) fn lose_agent(
        &mut self,
        serial: AgentSerial,
        agent: AgentId,
        how: Lost,
        waits_on: bool,
    ) -> (Vec<Waker>, Vec<Again>) {
        let (mut wakers, mut again) = (Vec::new(), Vec::new());
        let Some(found) = self.agents.get_mut(agent.index()).filter(|found| found.serial == serial)
        else {
            return (wakers, again);
        };
        (found.ends, found.lease) = (None, None);
        for &index in &found.requests {
            let request = &mut self.requests[index];
            let Some(key) = request.key else { continue };
            if matches!(request.state, State::Pending(_)) && request.waits_on(how, waits_on) {
                (request.key, request.queued) = (None, 0);
                request.patience = Patience::HasWaited;
                let id = RequestId::from_parts(narrow(index), request.serial);
                let (bucket, name) = (request.of.0, request.name.clone());
                again.push(Again { bucket, name, id, key: Some(key) });
            } else {
                let error = if request.queued > 0 { lease_lost() } else { never_queued() };
                request.state.end(error, how, &mut wakers);
            }
        }
        again.sort_by_key(|again| again.id.serial());
        (wakers, again)
    }

    /// What etcd knew of a request that waits is gone. It is to be asked for again, if it `waits_on`
    /// as after the end of its lease. Of which agent, and what.
    pub(crate) fn wait_again(
        &mut self,
        id: RequestId,
        waits_on: bool,
    ) -> Option<(AgentSerial, Again)> {
        let serial = self.agent_of(id)?;
        let request = self.find(id)?;
        let key = request.key?;
        let is_pending = matches!(request.state, State::Pending(_));
        if !is_pending || !request.waits_on(Lost::Disconnected, waits_on) {
            return None;
        }
        (request.key, request.queued) = (None, 0);
        request.patience = Patience::HasWaited;
        let (bucket, name) = (request.of.0, request.name.clone());
        Some((serial, Again { bucket, name, id, key: Some(key) }))
    }

    /// There is no lease to be had: those fail that have waited for one for so long, and had no place
    /// in a queue before. Whom to wake, and whether any are left that want a lease.
    pub(crate) fn fail_agent(
        &mut self,
        serial: AgentSerial,
        agent: AgentId,
        error: &Error,
        after: Duration,
    ) -> (Vec<Waker>, bool) {
        let (mut wakers, mut is_wanted) = (Vec::new(), false);
        let Some(found) = self.agents.get_mut(agent.index()).filter(|found| found.serial == serial)
        else {
            return (wakers, is_wanted);
        };
        for &index in &found.requests {
            let request = &mut self.requests[index];
            if !matches!(request.state, State::Pending(_)) {
                continue;
            }
            let waits = request.patience == Patience::HasWaited && !after.is_zero();
            if waits || request.since.elapsed() < after {
                is_wanted = true;
            } else {
                request.state.end(error.clone(), Lost::Disconnected, &mut wakers);
            }
        }
        (wakers, is_wanted)
    }

    /// Whether anything that an agent has asked for is not answered yet.
    pub(crate) fn waits(&self, serial: AgentSerial, agent: AgentId) -> bool {
        let found = self.agents.get(agent.index()).filter(|found| found.serial == serial);
        let mut requests = found.into_iter().flat_map(|found| &found.requests);
        requests.any(|&index| matches!(self.requests[index].state, State::Pending(_)))
    }

    /// Whether anybody has asked for this name and is not done with it.
    pub(crate) fn has_requests(&self, bucket: u64, name: &NameKey) -> bool {
        self.names.contains_key(&(bucket, name.clone()))
    }

    /// Whether anybody waits for this name.
    pub(crate) fn waits_for(&self, bucket: u64, name: &NameKey) -> bool {
        let mut of = self.names.get(&(bucket, name.clone())).into_iter().flatten();
        of.any(|&index| matches!(self.requests[index].status(), Status::Pending(_)))
    }

    /// Whether nobody has asked for anything.
    pub(crate) fn is_unused(&self) -> bool {
        self.names.is_empty()
    }

    /// All that is of this name and alive, of which etcd may know, in the order of the requests.
    pub(crate) fn of_name(
        &self,
        bucket: u64,
        name: &NameKey,
    ) -> Vec<(RequestId, RequestKey, Status)> {
        let is_alive = |status| matches!(status, Status::Pending(_) | Status::Held(_));
        let of = self.names.get(&(bucket, name.clone())).into_iter().flatten();
        let of = of.map(|&index| (index, &self.requests[index]));
        let alive = of.filter(|(_, request)| is_alive(request.status()));
        let mut alive: Vec<_> = alive
            .filter_map(|(index, request)| {
                let id = RequestId::from_parts(narrow(index), request.serial);
                Some((id, request.key?, request.status()))
            })
            .collect();
        alive.sort_unstable_by_key(|(id, ..)| id.serial());
        alive
    }

    /// All that is pending or held and that etcd may know of, by bucket and name, whether it is held, and whose
    /// it is.
    pub(crate) fn alive(
        &self,
    ) -> impl Iterator<Item = (u64, &NameKey, RequestKey, bool, AgentSerial)> {
        self.names.iter().flat_map(move |((bucket, name), of)| {
            of.iter().filter_map(move |&index| {
                let request = &self.requests[index];
                let is_held = match request.status() {
                    Status::Held(_) => true,
                    Status::Pending(_) => false,
                    Status::Ended | Status::Absent => return None,
                };
                let serial = self.agent(request.agent?)?;
                Some((*bucket, name, request.key?, is_held, serial))
            })
        })
    }

    /// All that the agent has or waits for, of which etcd may know, in the order of the requests.
    pub(crate) fn known_of(&self, agent: AgentId) -> Vec<KnownOf> {
        let Some(agent) = self.agents.get(agent.index()) else { return Vec::new() };
        let is_alive =
            |request: &&Request| matches!(request.status(), Status::Pending(_) | Status::Held(_));
        let all = agent.requests.iter().map(|&index| &self.requests[index]).filter(is_alive);
        let mut all: Vec<_> = all.filter_map(|of| Some((of.serial, of, of.key?))).collect();
        all.sort_unstable_by_key(|&(serial, ..)| serial);
        let known = |(_, of, key): (u64, &Request, RequestKey)| KnownOf {
            name: of.of.1.clone(),
            key,
            said: of.said.clone(),
        };
        all.into_iter().map(known).collect()
    }

    /// Notes that a request that waits was made inside this lock, which is held.
    pub(crate) fn put_inside(&mut self, id: RequestId, lock: LockId) -> Nested {
        if let Some(outer) = self.outer(lock) {
            return self.put_outer(id, outer);
        }
        let Some(hidden) = self.hidden(lock) else { return Nested::default() };
        let Some(request) = self.find(id) else { return Nested::default() };
        if !matches!(request.state, State::Pending(_)) {
            return Nested::default();
        }
        let here = request.is_here.then(|| request.of.clone());
        if !request.inside_hidden.contains(&lock) && request.inside_hidden.len() < MOST_INSIDE {
            request.inside_hidden.push(lock);
            self.inside_hidden.push(id);
        }
        Nested { said: None, hidden: here.into_iter().chain([hidden]).collect() }
    }

    /// The same with what the lock is called.
    pub(crate) fn put_outer(&mut self, id: RequestId, outer: Outer) -> Nested {
        let Some(request) = self.find(id) else { return Nested::default() };
        if !matches!(request.state, State::Pending(_)) {
            return Nested::default();
        }
        let here = request.is_here.then(|| request.of.clone());
        let inside = &mut request.said.inside;
        let is_news = inside.len() < MOST_INSIDE && !inside.contains(&outer);
        if is_news {
            inside.push(outer);
        }
        let said = if is_news { self.agent_of(id) } else { None };
        Nested { said, hidden: here.into_iter().collect() }
    }

    /// Tells what a lock of which nobody else knows is called, once others do. The name of which they have
    /// to know; `None` if they do, or there is no such lock.
    pub(crate) fn tell_outer(
        &mut self,
        lock: LockId,
        tell: impl FnOnce(Outer) + Send + 'static,
    ) -> Option<(u64, NameKey)> {
        let hidden = self.hidden(lock)?;
        self.told_where.push((lock, Box::new(tell)));
        Some(hidden)
    }

    /// Notes that a request that waits may give up by itself. Whose it is, if that is news.
    pub(crate) fn note_may_give_up(&mut self, id: RequestId) -> Option<AgentSerial> {
        let request = self.find(id)?;
        if request.said.may_give_up || !matches!(request.state, State::Pending(_)) {
            return None;
        }
        request.said.may_give_up = true;
        // Else it is said when it is written.
        request.key?;
        self.agent_of(id)
    }

    /// The name of a lock that is held, if others do not know of that yet.
    fn hidden(&self, lock: LockId) -> Option<(u64, NameKey)> {
        let known = self.requests.get(*self.serials.get(&lock.serial)?)?;
        let is_hidden = matches!(known.state, State::Held(grant, _) if grant.made == i64::MAX);
        is_hidden.then(|| known.of.clone())
    }

    /// Others know of locks of which they did not. Of whom there is more to say by that, and whom to tell
    /// what such a lock is called, without any table's lock.
    pub(crate) fn say_where(&mut self) -> (Vec<AgentSerial>, Vec<(Outer, TellOuter)>) {
        let (mut news, mut told) = (Vec::new(), Vec::new());
        for id in mem::take(&mut self.inside_hidden) {
            let Some(request) = self.find(id) else { continue };
            for lock in mem::take(&mut request.inside_hidden) {
                news.extend(self.put_inside(id, lock).said);
            }
        }
        for (lock, tell) in mem::take(&mut self.told_where) {
            match self.outer(lock) {
                Some(outer) => told.push((outer, tell)),
                None if self.hidden(lock).is_some() => self.told_where.push((lock, tell)),
                None => {}
            }
        }
        (news, told)
    }

    /// What a lock that is held is called, for others.
    pub(crate) fn outer(&self, lock: LockId) -> Option<Outer> {
        let known = self.requests.get(*self.serials.get(&lock.serial)?)?;
        let agent = self.agents.get(known.agent?.index())?;
        let whose = agent.lease.map(|share| share.client_id);
        let (State::Held(grant, _), Some(request)) = (&known.state, known.key) else { return None };
        let mut buckets = self.buckets.iter();
        let (bucket, _) = buckets.find(|(_, open)| open.number == known.of.0)?;
        // Until it is written, nobody else knows of it.
        let made = Some(grant.made).filter(|made| *made < i64::MAX)?;
        let is_its = whose == Some(lock.client_id) && bucket.len() <= LONGEST_BUCKET;
        let name = known.of.1.clone();
        is_its.then(|| Outer { bucket: bucket.clone(), name, request, made })
    }

    /// All that the agent waits for, of which etcd may know.
    pub(crate) fn pending_of(&self, agent: AgentId) -> Vec<(RequestId, NameKey, RequestKey)> {
        let Some(agent) = self.agents.get(agent.index()) else { return Vec::new() };
        let pending = agent.requests.iter().filter_map(|&index| {
            let request = &self.requests[index];
            let id = RequestId::from_parts(narrow(index), request.serial);
            let name = request.of.1.clone();
            matches!(request.state, State::Pending(_)).then_some((id, name, request.key?))
        });
        pending.collect()
    }

    /// Notes a request that another connection has made. It cannot be answered before the agent
    /// has its lease: see [`revive`](Self::revive).
    pub(crate) fn recall(
        &mut self,
        serial: AgentSerial,
        agent: AgentId,
        name: ResourceName,
        kind: RequestKind,
        key: RequestKey,
        is_lock: bool,
    ) -> Option<RequestId> {
        let found = self.agents.get_mut(agent.index()).filter(|found| found.serial == serial)?;
        if found.terminated {
            return None;
        }
        found.ends = Some(Moment::default());
        let (serial, bucket) = (self.next_request, found.bucket);
        self.next_request += 1;
        let state = State::Pending(Waker::noop().clone());
        let waits = matches!(kind, RequestKind::Wait(_)) && !is_lock;
        let patience = if waits { Patience::HasWaited } else { Patience::None };
        let made = Request::new(serial, agent, (bucket, name), kind, state);
        let request = Request { key: Some(key), patience, ..made };
        Some(self.insert(agent, request))
    }

    /// An agent that goes on with a lease has it until then.
    pub(crate) fn revive(&mut self, serial: AgentSerial, agent: AgentId, span: Span) {
        if let Some(found) =
            self.agents.get_mut(agent.index()).filter(|found| found.serial == serial)
        {
            (found.ends, found.span) = (Some(span.ends), span);
        }
    }

    /// The same in full.
    pub(crate) fn span(&self, agent: AgentId) -> Option<Span> {
        let agent = self.agents.get(agent.index())?;
        (agent.ends == Some(agent.span.ends)).then_some(agent.span)
    }

    /// An agent has what it has under this lease from now on.
    pub(crate) fn set_lease(&mut self, serial: AgentSerial, agent: AgentId, lease: Share) {
        let found = self.agents.get_mut(agent.index()).filter(|found| found.serial == serial);
        if let Some(found) = found {
            found.lease = Some(lease);
        }
    }

    pub(crate) fn lease(&self, agent: AgentId) -> Option<Share> {
        self.agents.get(agent.index())?.lease
    }

    /// Names are ours under this lease from now on.
    pub(crate) fn set_own_share(&mut self, own: Share) {
        self.own_share = Some(own);
    }

    pub(crate) fn own_share(&self) -> Option<Share> {
        self.own_share
    }

    /// Until when the agent has what it has, if it has a lease.
    pub(crate) fn ends(&self, agent: AgentId) -> Option<Moment> {
        self.agents.get(agent.index())?.ends
    }

    /// Nobody speaks to etcd any more. Whom to wake.
    pub(crate) fn orphan(&mut self) -> Vec<Waker> {
        self.gone = true;
        // Nothing is granted here any more either, nor has a place in a queue of ours.
        self.owned.clear();
        let mut wakers = Vec::new();
        for (_, request) in &mut self.requests {
            request.is_here = false;
            request.state.end(gone(), Lost::Disconnected, &mut wakers);
        }
        wakers
    }
}

/// A request is not of this name any more.
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

pub(crate) fn gone() -> Error {
    Error::Unreachable("the thread that spoke to etcd has ended".to_owned())
}
