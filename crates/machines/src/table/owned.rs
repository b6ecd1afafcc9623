//! Names that this connection owns: requests for them are granted here, without the store.
//!
//! While this connection's owner key of a name stands in the store, nobody else is granted the name. So the requests of this
//! connection need only a queue of their own here, in the order of the calls. Each caller does what
//! is next in the queue, with the table locked. The thread says when a name begins to be owned, and
//! when that ends.
//!
//! A request that steals a name first asks the owner to give it up, and takes it only from an owner that has no
//! right to grant the name any more. A person who removes the owner key does not ask at all. Then this connection
//! learns of the loss only by the watch or a list, and until then may go on granting the name. All these grants
//! have smaller tokens than the thief's.
//!
//! # Invariant
//!
//! A request that *is here*, in such a queue or held from it, has no key in the store, and nothing about it is on
//! its way to the store. Between calls, the first request that waits here cannot be granted.

use std::{collections::BTreeMap, mem, task::Waker};

use navlock_core::{
    Lost, Mode,
    host::{Answer, RequestKind},
};
use navlock_engine::{AgentId, RequestId};

use super::{
    Table,
    entries::{Again, Agent, AgentSerial, OnLeaseEnd, State, is_over, narrow},
    owned_name::{GrantState, LocalOutcome, Owned, QueueOrder, Started, Usage},
};
use crate::{clock::Uptime, failure::lease_lost, lease::LeaseName, names::NameKey, tokens};

impl Table {
    /// Queues or answers a request here, if this connection owns its name. The request was just made,
    /// or the thread has just heard of it. `None` if the request has to be sent to the store, or is here
    /// already.
    pub(crate) fn take_here(&mut self, id: RequestId) -> Option<LocalOutcome> {
        let of = self.name_of(id)?;
        let owned = self.owned.get_mut(&of)?;
        let request = self.requests.get_mut(id.index())?;
        if request.is_here || !matches!(request.state, State::Pending(_)) {
            return None;
        }
        let agent = self.agents.get(request.agent?.index())?;
        let (is_known, mode) = (owned.is_of(agent), request.kind.mode());
        let is_granted = match request.kind {
            // The request comes after requests of others, which the store queues.
            RequestKind::Wait(_) if owned.is_for_run() => return None,
            RequestKind::Wait(_) => {
                request.is_here = true;
                if is_known {
                    request.on_lease_end = OnLeaseEnd::Repeat;
                }
                let is_first = owned.queue.is_empty() && owned.is_open();
                if !is_first || !is_known || !owned.admits(mode) {
                    owned.queue.insert(request.serial, id.index());
                    let is_known = is_known && owned.is_open();
                    return Some(LocalOutcome::Waits { is_known });
                }
                true
            }
            // Such requests do not wait here. The thread gets a lease for the agent, and calls this
            // function again.
            _ if !is_known || !owned.is_open() => return None,
            RequestKind::IfAvailable(_) => {
                owned.queue.is_empty() && owned.admits(mode) && !owned.is_for_run()
            }
            RequestKind::Steal => true,
        };
        let mut wakers = Vec::new();
        if request.kind.steals() {
            (owned.exclusive, owned.shared) = (false, 0);
            for &index in self.names.get(&of).into_iter().flatten() {
                let victim = &mut self.requests[index];
                if victim.is_here && matches!(victim.state, State::Held(..)) {
                    victim.is_here = false;
                    victim.state.end(Lost::Stolen.into(), Lost::Stolen, &mut wakers);
                }
            }
        }
        let request = self.requests.get_mut(id.index())?;
        request.is_here = is_granted;
        let (state, answer) = if is_granted {
            let grant = owned.grant(mode);
            (State::Held(grant, Vec::new()), Answer::Granted(grant.token))
        } else {
            (State::Unavailable, Answer::Unavailable)
        };
        let own = match mem::replace(&mut request.state, state) {
            State::Pending(waker) => Some(waker),
            _ => None,
        };
        Some(LocalOutcome::Answered { answer, wakers, own })
    }

    /// The bucket and name of a request.
    fn name_of(&mut self, id: RequestId) -> Option<(u64, NameKey)> {
        if self.owned.is_empty() {
            return None;
        }
        self.find(id).map(|request| request.of.clone())
    }

    /// Whether the request is here, so that the store does not know it.
    pub(crate) fn is_here(&mut self, id: RequestId) -> bool {
        self.find(id).is_some_and(|request| request.is_here)
    }

    /// Whether this name was owned for a run, and the run is over, so that the name has to be given
    /// up.
    pub(super) fn is_run_over(&self, of: &(u64, NameKey)) -> bool {
        let usage = self.usage(of);
        usage.is_some_and(|usage| usage.is_for_run && !usage.is_used)
    }

    /// Grants the requests that can be granted for a name that is owned. Returns the wakers to
    /// call.
    pub(super) fn process(&mut self, of: &(u64, NameKey)) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let Some(owned) = self.owned.get_mut(of) else { return wakers };
        while let Some((_, &first)) = owned.queue.first_key_value() {
            let request = &mut self.requests[first];
            let mode = request.kind.mode();
            let agent = request.agent.and_then(|agent| self.agents.get(agent.index()));
            if !owned.is_open() || !owned.admits(mode) || !agent.is_some_and(|of| owned.is_of(of)) {
                break;
            }
            owned.queue.pop_first();
            request.since = Uptime::now();
            let granted = State::Held(owned.grant(mode), Vec::new());
            if let State::Pending(waker) = mem::replace(&mut request.state, granted) {
                wakers.push(waker);
            }
        }
        wakers
    }

    /// To be called when an agent has got a lease: grants the agent what it can be granted. Returns
    /// the wakers to call.
    pub(crate) fn process_of(&mut self, agent: AgentId) -> Vec<Waker> {
        if self.owned.is_empty() {
            return Vec::new();
        }
        let Some(agent) = self.agents.get(agent.index()) else { return Vec::new() };
        let mut names = Vec::new();
        for &index in &agent.requests {
            let request = &mut self.requests[index];
            if !request.is_here {
                continue;
            }
            let of = request.of.clone();
            let is_place = self.owned.get(&of).is_some_and(|owned| owned.is_of(agent));
            if is_place && request.kind.waits() {
                request.on_lease_end = OnLeaseEnd::Repeat;
            }
            names.push(of);
        }
        names.iter().flat_map(|of| self.process(of)).collect()
    }

    /// Takes out a request that is here and has ended, or is about to end. Returns its name, for
    /// which another request may be granted now.
    pub(super) fn end_here(&mut self, index: usize) -> Option<(u64, NameKey)> {
        let request = self.requests.get_mut(index).filter(|request| request.is_here)?;
        request.is_here = false;
        let of = request.of.clone();
        let owned = self.owned.get_mut(&of)?;
        match request.state {
            State::Pending(_) => drop(owned.queue.remove(&request.serial)),
            State::Held(..) => owned.release(request.kind.mode()),
            _ => {}
        }
        Some(of)
    }

    /// Notes that this connection owns a name since this revision. From now on, its requests for
    /// the name wait here: all of them, or those of the run alone.
    pub(crate) fn own(
        &mut self,
        of: &(u64, NameKey),
        made: i64,
        lease: LeaseName,
        run: &[(RequestId, QueueOrder)],
    ) -> Started {
        let mut begun = Started::default();
        let queue = BTreeMap::new();
        let (granted, shared, exclusive) = (0, 0, false);
        let gate = GrantState::Open;
        let run: BTreeMap<_, _> = run.iter().map(|&(id, place)| (id.serial(), place)).collect();
        let mut owned = Owned { made, lease, granted, shared, exclusive, queue, run, gate };
        for &index in self.names.get(of).into_iter().flatten() {
            let request = &mut self.requests[index];
            if request.is_here || !matches!(request.state, State::Pending(_)) {
                continue;
            }
            if owned.is_for_run() && !owned.run.contains_key(&request.serial) {
                continue;
            }
            let Some(agent) = request.agent.and_then(|agent| self.agents.get(agent.index())) else {
                continue;
            };
            begun.has_strangers |= agent.lease.is_some_and(|share| share.lease != lease);
            if !request.kind.waits() {
                continue;
            }
            if agent.lease.is_none() {
                begun.without_lease.push(agent.serial);
            }
            let id = RequestId::from_parts(narrow(index), request.serial);
            begun.freed.extend(request.key.take().map(|key| (key, id)));
            (request.is_here, request.queued) = (true, 0);
            request.on_lease_end = OnLeaseEnd::Repeat;
            owned.queue.insert(request.serial, index);
        }
        self.owned.insert(of.clone(), owned);
        begun.without_lease.sort_unstable();
        begun.without_lease.dedup();
        begun.wakers = self.process(of);
        begun
    }

    /// To be called when the locks of a name that was about to be given up could not be written.
    /// They are here again until they end, and nobody is granted the name meanwhile.
    pub(crate) fn keep_lease(
        &mut self,
        of: &(u64, NameKey),
        made: i64,
        lease: LeaseName,
        held: &[RequestId],
    ) {
        let queue = BTreeMap::new();
        let (granted, shared, exclusive) = (tokens::MOST, 0, false);
        let (run, gate) = (BTreeMap::new(), GrantState::Stuck);
        let mut owned = Owned { made, lease, granted, shared, exclusive, queue, run, gate };
        for &id in held {
            let Some(request) = self.find(id) else { continue };
            if let State::Held(..) = request.state {
                (request.key, request.is_here) = (None, true);
                match request.kind.mode() {
                    Mode::Exclusive => owned.exclusive = true,
                    Mode::Shared => owned.shared += 1,
                }
            }
        }
        self.owned.insert(of.clone(), owned);
    }

    /// Notes that a lock was written to the store in this revision.
    pub(crate) fn settle(&mut self, id: RequestId, made: i64) {
        let Some(request) = self.find(id) else { return };
        if let State::Held(grant, _) = &mut request.state {
            grant.made = made;
            // Callers that have asked in the meantime were told that it is lost.
            request.ends.take_if(|ends| *ends > Uptime::now());
        }
    }

    /// Notes that the locks of a name of which the store does not know yet are lost at this moment.
    pub(crate) fn limit(&mut self, of: &(u64, NameKey), ends: Uptime) {
        for &index in self.names.get(of).into_iter().flatten() {
            let request = &mut self.requests[index];
            if matches!(request.state, State::Held(grant, _) if grant.made == i64::MAX) {
                request.ends = Some(ends);
            }
        }
    }

    /// Notes that this connection does not own a name any more, and that the name's locks are lost.
    /// Returns the wakers to call, and the requests to make again.
    pub(crate) fn lose_name(
        &mut self,
        of: &(u64, NameKey),
        how: Lost,
    ) -> (Vec<Waker>, Vec<(AgentSerial, Again)>) {
        let (mut wakers, mut again) = (Vec::new(), Vec::new());
        if self.owned.remove(of).is_none() {
            return (wakers, again);
        }
        for &index in self.names.get(of).into_iter().flatten() {
            let request = &mut self.requests[index];
            if !mem::take(&mut request.is_here) {
                continue;
            }
            let agent = request.agent.and_then(|agent| self.agents.get(agent.index()));
            let Some(Agent { serial: agent, ends, .. }) = agent else { continue };
            // If the agent's lease was over before this, callers that have asked were told
            // `Disconnected` already.
            let how = if is_over(*ends) { Lost::Disconnected } else { how };
            // A request without a lease has lost no place in a queue, so it goes on waiting.
            let waits_on = request.on_lease_end != OnLeaseEnd::Fail;
            if matches!(request.state, State::Pending(_)) && waits_on {
                let id = RequestId::from_parts(narrow(index), request.serial);
                again.push((*agent, Again { of: of.clone(), id, key: None }));
            } else {
                request.state.end(lease_lost(self.store), how, &mut wakers);
            }
        }
        again.sort_by_key(|(_, again)| again.id.serial());
        (wakers, again)
    }

    /// Stops granting the names that are owned under this lease, because it is not certain any more
    /// that they are owned.
    pub(crate) fn close_under(&mut self, lease: i64) {
        let under = self.owned.values_mut().filter(|owned| owned.lease.id == lease);
        under.for_each(Owned::close);
    }

    /// Stops granting this name, as [`close_under`](Self::close_under) does for many names.
    pub(crate) fn close(&mut self, of: &(u64, NameKey)) {
        if let Some(owned) = self.owned.get_mut(of) {
            owned.close();
        }
    }

    /// The names that are owned under this lease, in the order in which they became owned.
    pub(crate) fn owned_under(&self, lease: i64) -> Vec<(u64, NameKey)> {
        let under = self.owned.iter().filter(|(_, owned)| owned.lease.id == lease);
        let mut under: Vec<_> = under.map(|(of, owned)| (owned.made, of.clone())).collect();
        under.sort_by_key(|&(made, _)| made);
        under.into_iter().map(|(_, of)| of).collect()
    }

    /// How a name that is owned is used.
    pub(crate) fn usage(&self, of: &(u64, NameKey)) -> Option<Usage> {
        let owned = self.owned.get(of)?;
        let Owned { granted, gate, .. } = *owned;
        let (held, is_for_run) = (owned.held(), owned.is_for_run());
        let is_used = held.is_some() || !owned.queue.is_empty();
        Some(Usage { granted, held, is_used, is_for_run, gate })
    }

    /// How many names are owned.
    pub(crate) fn count_owned(&self) -> usize {
        self.owned.len()
    }
}
