//! One bucket over several clusters, with a part on each of them.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    time::Duration,
};

use futures_util::future::{join_all, try_join_all};
use navlock_core::{
    AgentInfo, ClientId, Error, Inspected, Inspection, LockManagerSnapshot, Lost, ResourceName,
    host::{
        Answer, Backend, Claim, InspectFuture, NameRef, PositionFuture, QueryFuture, ReclaimFuture,
        RequestKind, Term, Ticket,
    },
    look::{LockId, Patience},
};
use navlock_engine::{AgentId, FencingToken};
use slab::Slab;

use super::{config::of, connections::Connections};
use crate::{backend::EtcdBackend, keys::NameKey};

/// One bucket.
pub(super) struct ClustersBackend {
    connections: Arc<Connections>,
    name: String,
    /// The parts, in the order of the connections.
    parts: Vec<EtcdBackend>,
    /// The ids of each agent, one for each part.
    agents: Mutex<Slab<Vec<AgentId>>>,
}

impl ClustersBackend {
    /// The bucket of this name.
    pub(super) fn new(connections: Arc<Connections>, name: &str) -> Self {
        let parts = connections.parts.iter().map(|part| part.reach.open(name)).collect();
        Self { connections, name: name.to_owned(), parts, agents: Mutex::default() }
    }

    fn part_of(&self, name: &ResourceName) -> usize {
        self.connections.part_of(&self.name, name)
    }

    fn agents(&self) -> MutexGuard<'_, Slab<Vec<AgentId>>> {
        // A poisoned mutex may be used: nothing panics while it is locked, so the table is never
        // half changed.
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ids of an agent, one for each part; empty if the agent is not of this bucket.
    fn known(&self, agent: AgentId) -> Vec<AgentId> {
        self.agents().get(agent.index()).cloned().unwrap_or_default()
    }

    /// Each part, with the agent's id there.
    fn each(&self, agent: AgentId) -> impl Iterator<Item = (&EtcdBackend, AgentId)> {
        self.parts.iter().zip(self.known(agent))
    }

    /// The part of a ticket, and the ticket there.
    fn of(&self, ticket: Ticket) -> (&EtcdBackend, Ticket) {
        (&self.parts[lane(ticket)], Ticket { lane: 0, id: ticket.id })
    }

    /// What is added to the tokens of a part, so that they go on from those of another cluster.
    fn base(&self, part: usize) -> u64 {
        self.connections.parts[part].entry.base()
    }

    fn raised(&self, part: usize, token: FencingToken) -> FencingToken {
        FencingToken::new(token.get().saturating_add(self.base(part)))
    }

    fn raised_answer(&self, part: usize, answer: Answer) -> Answer {
        match answer {
            Answer::Granted(token) => Answer::Granted(self.raised(part, token)),
            Answer::Unavailable => answer,
        }
    }

    fn raise_inspected(&self, part: usize, inspected: &mut Inspected) {
        let token = inspected.fencing_token;
        inspected.fencing_token = token.map(|token| self.raised(part, token));
    }

    /// Splits a serial number into the part, and the serial number there.
    fn split(&self, serial: u64) -> (usize, u64) {
        let count = self.parts.len() as u64;
        // The remainder is less than the number of parts.
        (usize::try_from(serial % count).unwrap_or_default(), serial / count)
    }

    fn join(&self, part: usize, serial: u64) -> u64 {
        serial.wrapping_mul(self.parts.len() as u64).wrapping_add(part as u64)
    }

    /// What is held and pending in the parts of this name, or in all parts. Each part shows one moment, and is
    /// no longer than that cluster's own inspection.
    fn inspection<'a>(
        &'a self,
        name: Option<&ResourceName>,
        look: impl Fn(&'a EtcdBackend) -> InspectFuture<'a>,
    ) -> InspectFuture<'a> {
        let those = name.map_or(0..self.parts.len(), |name| {
            let nth = self.part_of(name);
            nth..nth + 1
        });
        let each =
            those.map(|nth| {
                let seen = look(&self.parts[nth]);
                async move {
                    Ok::<_, Error>((nth, seen.await.map_err(|error| self.failed(nth, error))?))
                }
            });
        let each = try_join_all(each);
        Box::pin(async move {
            let mut all = Inspection::default();
            for (nth, seen) in each.await? {
                let Inspection { held, pending, owned, left_out, .. } = seen;
                all.left_out += left_out;
                let adapt = |mut one: Inspected| {
                    self.raise_inspected(nth, &mut one);
                    // Requests of different clusters get an arbitrary order, which is the same for
                    // all lookers.
                    one.further.order.1 = self.join(nth, one.further.order.1);
                    one
                };
                all.held.extend(held.into_iter().map(adapt));
                all.pending.extend(pending.into_iter().map(adapt));
                all.owned.extend(owned.into_iter().map(adapt));
            }
            Ok(all)
        })
    }

    fn failed(&self, part: usize, error: Error) -> Error {
        of(&self.connections.parts[part].name, error)
    }
}

/// The part of a ticket.
fn lane(ticket: Ticket) -> usize {
    ticket.lane as usize
}

impl Backend for ClustersBackend {
    fn lanes(&self) -> usize {
        self.parts.len()
    }

    fn open_agent(&self, client_id: ClientId) -> AgentId {
        let each = self.parts.iter().map(|part| part.open_agent(client_id)).collect();
        let index = self.agents().insert(each);
        AgentId::from_index(u32::try_from(index).expect("there are fewer agents than 2^32"))
    }

    fn describe(&self, agent: AgentId, info: &AgentInfo) {
        self.each(agent).for_each(|(part, agent)| part.describe(agent, info));
    }

    fn close_agent(&self, agent: AgentId) {
        let each = self.agents().try_remove(agent.index()).unwrap_or_default();
        self.parts.iter().zip(each).for_each(|(part, agent)| part.close_agent(agent));
    }

    fn terminate(&self, agent: AgentId) {
        self.each(agent).for_each(|(part, agent)| part.terminate(agent));
    }

    fn request(
        &self,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
        why: &str,
        waker: &Waker,
    ) -> Result<(Ticket, Poll<Answer>), Error> {
        let nth = self.part_of(name);
        let agent = self.agents().get(agent.index()).map(|each| each[nth]);
        let agent = agent.ok_or(Error::Terminated)?;
        let (ticket, answer) = self.parts[nth].request(agent, name, kind, why, waker)?;
        let lane = u32::try_from(nth).expect("there are few clusters");
        Ok((Ticket { lane, ..ticket }, answer.map(|answer| self.raised_answer(nth, answer))))
    }

    fn poll_request(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Answer, Error>> {
        let nth = lane(ticket);
        let (part, ticket) = self.of(ticket);
        part.poll_request(ticket, waker).map(|answer| {
            let answer = answer.map(|answer| self.raised_answer(nth, answer));
            answer.map_err(|error| self.failed(nth, error))
        })
    }

    fn poll_lost(&self, ticket: Ticket, waker: &Waker) -> Poll<Lost> {
        let (part, ticket) = self.of(ticket);
        part.poll_lost(ticket, waker)
    }

    fn lost(&self, ticket: Ticket) -> Option<Lost> {
        let (part, ticket) = self.of(ticket);
        part.lost(ticket)
    }

    fn stolen_by(&self, ticket: Ticket) -> Option<ClientId> {
        let (part, ticket) = self.of(ticket);
        part.stolen_by(ticket)
    }

    fn serial(&self, ticket: Ticket) -> u64 {
        let (part, of_part) = self.of(ticket);
        self.join(lane(ticket), part.serial(of_part))
    }

    fn put_inside(&self, ticket: Ticket, lock: LockId) {
        let (from, serial) = self.split(lock.serial);
        let lock = LockId { serial, ..lock };
        // The reference of a lock is the same for all clusters.
        let (part, of_part) = self.of(ticket);
        if from == lane(ticket) {
            part.put_inside(of_part, lock);
        } else {
            part.put_inside_of(of_part, &self.parts[from], lock);
        }
    }

    fn made(&self, ticket: Ticket) {
        let (part, ticket) = self.of(ticket);
        part.made(ticket);
    }

    fn note_patience(&self, ticket: Ticket, patience: Patience) {
        let (part, ticket) = self.of(ticket);
        part.note_patience(ticket, patience);
    }

    fn finish(&self, ticket: Ticket) {
        let (part, ticket) = self.of(ticket);
        part.finish(ticket);
    }

    /// The part of each cluster shows one moment.
    fn query(&self) -> QueryFuture<'_> {
        let each = self.parts.iter().enumerate().map(|(nth, part)| {
            let queried = part.query();
            async move { queried.await.map_err(|error| self.failed(nth, error)) }
        });
        let each = try_join_all(each);
        Box::pin(async move {
            let (mut held, mut pending) = (Vec::new(), Vec::new());
            for part in each.await? {
                held.extend(part.held);
                pending.extend(part.pending);
            }
            Ok(LockManagerSnapshot::new(held, pending))
        })
    }

    fn inspect(&self, name: Option<ResourceName>) -> InspectFuture<'_> {
        self.inspection(name.as_ref(), |part| part.inspect(name.clone()))
    }

    /// Asks the cluster of the name.
    fn position(&self, name: ResourceName, client_id: ClientId) -> PositionFuture<'_> {
        let nth = self.part_of(&name);
        let position = self.parts[nth].position(name, client_id);
        Box::pin(async move {
            let mut position = position.await.map_err(|error| self.failed(nth, error))?;
            position.holder.iter_mut().for_each(|holder| self.raise_inspected(nth, holder));
            Ok(position)
        })
    }

    fn name_ref(&self, name: &ResourceName) -> NameRef {
        NameKey::new(name).to_ref()
    }

    /// The reference of a long name does not tell the name's cluster, so all are asked.
    fn look(&self, name: Option<NameRef>, with_silence: bool) -> InspectFuture<'_> {
        let plain = name.clone().and_then(NameKey::of_ref).and_then(|name| name.name());
        self.inspection(plain.as_ref(), |part| part.look(name.clone(), with_silence))
    }

    /// The moment at which the first of the agent's leases is over.
    fn ends(&self, agent: AgentId) -> Option<Duration> {
        self.each(agent).filter_map(|(part, agent)| part.ends(agent)).min()
    }

    fn term(&self, agent: AgentId) -> Option<Term> {
        let terms = self.each(agent).filter_map(|(part, agent)| part.term(agent));
        terms.min_by_key(|term| term.ends)
    }

    fn lease(&self, agent: AgentId) -> Option<Vec<u8>> {
        let leases: Vec<_> =
            self.each(agent).filter_map(|(part, agent)| part.lease(agent)).collect();
        (!leases.is_empty()).then(|| leases.concat())
    }

    fn reclaim(&self, agent: AgentId, claims: Vec<Claim>) -> ReclaimFuture<'_> {
        let mut theirs = vec![Vec::new(); self.parts.len()];
        let places: Vec<_> = claims.iter().map(|claim| self.part_of(&claim.name)).collect();
        for (mut claim, &nth) in claims.into_iter().zip(&places) {
            let base = self.base(nth);
            let lowered = |token: FencingToken| FencingToken::new(token.get().saturating_sub(base));
            claim.token = claim.token.map(lowered);
            theirs[nth].push(claim);
        }
        // All parts are asked, because locks that are not claimed must be released.
        let each = self.each(agent).zip(theirs);
        let each = join_all(each.map(|((part, agent), claims)| part.reclaim(agent, claims)));
        Box::pin(async move {
            let mut answers: Vec<_> = each.await.into_iter().map(Vec::into_iter).collect();
            let mut next = |nth: usize| -> Option<Ticket> {
                let lane = u32::try_from(nth).expect("there are few clusters");
                let found = answers.get_mut(nth)?.next()??;
                Some(Ticket { lane, ..found })
            };
            places.iter().map(|&nth| next(nth)).collect()
        })
    }
}

impl fmt::Debug for ClustersBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClustersBackend").field("parts", &self.parts).finish_non_exhaustive()
    }
}
