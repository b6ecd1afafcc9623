//! The agents of the table: how long their locks last, and what becomes of them.

use std::{collections::HashSet, mem, task::Waker, time::Duration};

use navlock_core::{ClientId, Error, Lost, look::LockId};
use navlock_engine::{AgentId, RequestId};
use slab::Slab;

use super::{
    Table, Terminated,
    entries::{Again, Agent, AgentSerial, OnLeaseEnd, State, forget_id, is_over, narrow},
    unname,
};
use crate::{
    clock::Uptime,
    failure::{lease_lost, never_queued},
    lease::{LeaseTimes, Share},
};

impl Table {
    /// Notes an agent of this bucket. Returns its id, and its number for the thread.
    pub(crate) fn open_agent(
        &mut self,
        bucket: u64,
        client_id: ClientId,
    ) -> (AgentId, AgentSerial) {
        let serial = self.next_agent;
        self.next_agent += 1;
        let requests = HashSet::default();
        let term = LeaseTimes::default();
        let (ends, lease) = (None, None);
        let terminated = false;
        let agent = Agent { serial, client_id, bucket, terminated, ends, term, lease, requests };
        (AgentId::from_index(narrow(self.agents.insert(agent))), serial)
    }

    /// The agent's number for the thread.
    pub(crate) fn agent(&self, agent: AgentId) -> Option<AgentSerial> {
        self.agents.get(agent.index()).map(|agent| agent.serial)
    }

    /// [Terminates](Self::terminate) an agent, and forgets it.
    pub(crate) fn close_agent(&mut self, agent: AgentId) -> Terminated {
        let terminated = self.terminate(agent);
        self.agents.try_remove(agent.index());
        terminated
    }

    /// Ends all that the agent has.
    pub(crate) fn terminate(&mut self, agent: AgentId) -> Terminated {
        let mut all = Terminated::default();
        let Some(found) = self.agents.get_mut(agent.index()) else { return all };
        let Agent { terminated, requests, client_id, .. } = found;
        let client_id = *client_id;
        *terminated = true;
        let mut freed = Vec::new();
        for index in mem::take(requests) {
            freed.extend(self.end_here(index));
            let request = &mut self.requests[index];
            let id = RequestId::from_parts(narrow(index), request.serial);
            // From here on, only the end of the agent ends the key.
            let key = request.key.take();
            all.ended.extend(key.map(|key| (id, request.finished(key, None))));
            request.agent = None;
            let id_of = LockId { client_id, serial: request.lock_serial };
            forget_id(&mut self.ids, id_of, index);
            unname(&mut self.names, &request.of, index);
            request.state.end(Error::Terminated, Lost::Terminated, &mut all.wakers);
        }
        // All locks and requests of the agent have ended before anybody else is granted one of
        // their names.
        all.wakers.extend(freed.iter().flat_map(|of| self.process(of)));
        all.over.extend(freed.into_iter().filter(|of| self.is_run_over(of)));
        all.ended.sort_by_key(|(id, _)| id.serial());
        all
    }

    /// Notes how long an agent's lease lasts. Returns `false` if it is too late for that.
    pub(crate) fn renew(&mut self, serial: AgentSerial, agent: AgentId, term: LeaseTimes) -> bool {
        let Some(found) = found(&mut self.agents, serial, agent) else { return true };
        let is_late = is_over(found.ends) || is_over(Some(term.ends));
        if !is_late {
            (found.ends, found.term) = (Some(term.ends), term);
        }
        !is_late
    }

    /// Whether an agent's lease is over by the clock.
    pub(crate) fn is_over(&self, serial: AgentSerial, agent: AgentId) -> bool {
        self.agents
            .get(agent.index())
            .is_some_and(|found| found.serial == serial && is_over(found.ends))
    }

    /// To be called when all keys of the agent in the store are gone, or will be. Its locks are lost, and
    /// its waiting requests have to be made again. A request that the store never knew of has no place to
    /// lose, and waits for another lease. Returns the wakers to call, and the requests to make again.
    pub(crate) fn lose_agent(
        &mut self,
        serial: AgentSerial,
        agent: AgentId,
        how: Lost,
    ) -> (Vec<Waker>, Vec<Again>) {
        let (mut wakers, mut again, store) = (Vec::new(), Vec::new(), self.store);
        let Some(found) = found(&mut self.agents, serial, agent) else { return (wakers, again) };
        (found.ends, found.lease) = (None, None);
        for &index in &found.requests {
            let request = &mut self.requests[index];
            let Some(key) = request.key else { continue };
            if matches!(request.state, State::Pending(_)) && request.waits_on(how) {
                (request.key, request.queued) = (None, 0);
                request.on_lease_end = OnLeaseEnd::Repeat;
                let id = RequestId::from_parts(narrow(index), request.serial);
                again.push(Again { of: request.of.clone(), id, key: Some(key) });
            } else {
                let error =
                    if request.queued > 0 { lease_lost(store) } else { never_queued(store) };
                request.state.end(error, how, &mut wakers);
            }
        }
        again.sort_by_key(|again| again.id.serial());
        (wakers, again)
    }

    /// To be called when the key of a waiting request in the store is gone. The request has to be made
    /// again, as after the end of its lease. Returns its agent and the request.
    pub(crate) fn wait_again(&mut self, id: RequestId) -> Option<(AgentSerial, Again)> {
        let serial = self.agent_of(id)?;
        let request = self.find(id)?;
        let key = request.key?;
        let is_pending = matches!(request.state, State::Pending(_));
        if !is_pending || !request.waits_on(Lost::Disconnected) {
            return None;
        }
        (request.key, request.queued) = (None, 0);
        request.on_lease_end = OnLeaseEnd::Repeat;
        Some((serial, Again { of: request.of.clone(), id, key: Some(key) }))
    }

    /// To be called when no lease can be had: requests fail that have waited this long for a lease,
    /// and never had a place in a queue. Returns the wakers to call, and whether requests are left
    /// that want a lease.
    pub(crate) fn fail_agent(
        &mut self,
        serial: AgentSerial,
        agent: AgentId,
        error: &Error,
        after: Duration,
    ) -> (Vec<Waker>, bool) {
        let (mut wakers, mut is_wanted) = (Vec::new(), false);
        let Some(found) = found(&mut self.agents, serial, agent) else { return (wakers, false) };
        for &index in &found.requests {
            let request = &mut self.requests[index];
            if !matches!(request.state, State::Pending(_)) {
                continue;
            }
            let waits = request.on_lease_end == OnLeaseEnd::Repeat && !after.is_zero();
            if waits || request.since.elapsed() < after {
                is_wanted = true;
            } else {
                request.state.end(error.clone(), Lost::Disconnected, &mut wakers);
            }
        }
        (wakers, is_wanted)
    }

    /// Whether a request of an agent is not answered yet.
    pub(crate) fn waits(&self, serial: AgentSerial, agent: AgentId) -> bool {
        let found = self.agents.get(agent.index()).filter(|found| found.serial == serial);
        let mut requests = found.into_iter().flat_map(|found| &found.requests);
        requests.any(|&index| matches!(self.requests[index].state, State::Pending(_)))
    }

    /// Notes that an agent goes on under a lease, and how long the lease lasts.
    pub(crate) fn revive(&mut self, serial: AgentSerial, agent: AgentId, term: LeaseTimes) {
        if let Some(found) = found(&mut self.agents, serial, agent) {
            (found.ends, found.term) = (Some(term.ends), term);
        }
    }

    /// All times of the agent's lease, if it has one.
    pub(crate) fn term(&self, agent: AgentId) -> Option<LeaseTimes> {
        let agent = self.agents.get(agent.index())?;
        (agent.ends == Some(agent.term.ends)).then_some(agent.term)
    }

    /// Notes that the agent's locks and requests stand under this lease from now on.
    pub(crate) fn set_lease(&mut self, serial: AgentSerial, agent: AgentId, lease: Share) {
        if let Some(found) = found(&mut self.agents, serial, agent) {
            found.lease = Some(lease);
        }
    }

    /// The agent's share of the lease that its locks and requests stand under.
    pub(crate) fn lease(&self, agent: AgentId) -> Option<Share> {
        self.agents.get(agent.index())?.lease
    }

    /// When the agent's lease is over, if it has one.
    pub(crate) fn ends(&self, agent: AgentId) -> Option<Uptime> {
        self.agents.get(agent.index())?.ends
    }
}

/// The agent of this number, unless another agent has its place by now.
fn found(agents: &mut Slab<Agent>, serial: AgentSerial, agent: AgentId) -> Option<&mut Agent> {
    agents.get_mut(agent.index()).filter(|found| found.serial == serial)
}
