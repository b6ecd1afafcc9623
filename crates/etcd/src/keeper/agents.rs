//! Agents and their leases.

use std::{collections::HashMap, time::Duration};

use navlock_core::{AgentInfo, ClientId, Lost};
use navlock_engine::{AgentId, RequestId};

use super::{AgentSerial, Call, Keeper, Revoked, Shared, kind, recalls::PATIENCE, wake};
use crate::{
    bucket::{Kind, Surroundings, Wait},
    clock::{Moment, monotonic, wall_millis},
    data::{Step, Transaction},
    failure::Failure,
    hash::HashState,
    keys::{NameKey, RequestKey},
    lease::{LeaseName, Term, Word},
    slots::{Owner, Slots},
    table::{Again, Sent, Status},
    transactions::{Ask, Operation},
    values::{Value, encode_info},
};

/// An agent, as the thread knows it.
pub(super) struct Agent {
    pub(super) bucket: u64,
    pub(super) id: AgentId,
    pub(super) client_id: ClientId,
    info: AgentInfo,
    pub(super) lease: Lease,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lease {
    /// It has asked for nothing since it had one, if it ever had.
    None,
    /// Asked for, since then.
    Coming(Moment),
    /// It was another connection's. Since then it is tried to renew it.
    Recalled(i64, Moment),
    Live(i64),
    /// Etcd does not know it any more. It is asked why.
    Doubted(i64),
}

impl Lease {
    fn id(self) -> Option<i64> {
        match self {
            Self::Live(id) | Self::Recalled(id, _) | Self::Doubted(id) => Some(id),
            Self::None | Self::Coming(_) => None,
        }
    }
}

impl Agent {
    pub(super) fn new(bucket: u64, id: AgentId, client_id: ClientId) -> Self {
        Self { bucket, id, client_id, info: AgentInfo::default(), lease: Lease::None }
    }

    /// The lease under which it has what it has.
    pub(super) fn lease_id(&self) -> Option<i64> {
        self.lease.id()
    }
}

/// What a bucket may know of the rest.
struct Around<'a> {
    shared: &'a Shared,
    slots: &'a mut Slots,
    agents: &'a HashMap<AgentSerial, Agent, HashState>,
    /// Who needs a lease.
    needs: Option<AgentSerial>,
}

impl Surroundings for Around<'_> {
    fn owner(&self, key: RequestKey, made: i64) -> Owner {
        self.slots.owner(key, made)
    }

    fn status(&self, id: RequestId) -> Status {
        self.shared.table().status(id)
    }

    fn ask(&mut self, serial: AgentSerial, id: RequestId) -> Option<Result<(Ask, Kind), Wait>> {
        let agent = self.agents.get(&serial)?;
        let mut table = self.shared.table();
        let lease = match agent.lease {
            Lease::Live(lease) if !table.is_over(serial, agent.id) => lease,
            _ => {
                let is_wanted = matches!(table.status(id), Status::Pending(_));
                return is_wanted.then(|| {
                    self.needs = Some(serial);
                    Err(Wait)
                });
            }
        };
        let Sent { name, kind: asked, key: request } = table.send(id, self.slots)?;
        let name = NameKey::new(&name).is_hash().then_some(name);
        let (client_id, since, place) = (agent.client_id, wall_millis(), id.serial());
        let value = Value { client_id, since, asked: monotonic(), place, name }.encode();
        Some(Ok((Ask { request, mode: asked.mode(), lease, value }, kind(asked))))
    }

    fn keep_back(&mut self, id: RequestId) {
        if let Some(key) = self.shared.table().keep_back(id) {
            // Nothing was sent about it.
            self.slots.free(key, id, 0);
        }
    }
}

impl Keeper {
    /// What is next for a name.
    pub(super) fn next_operation(&mut self, bucket: u64, key: &NameKey) -> Option<Operation> {
        let Self { shared, slots, agents, .. } = self;
        let mut around = Around { shared, slots, agents, needs: None };
        let operation = self.buckets.get_mut(&bucket)?.bucket.step(key, &mut around);
        if let Some(serial) = around.needs {
            self.need_lease(serial);
        }
        operation
    }

    fn need_lease(&mut self, serial: AgentSerial) {
        match self.agents.get_mut(&serial) {
            Some(Agent { lease: lease @ Lease::None, .. }) => {
                *lease = Lease::Coming(Moment::now());
                self.ask_for_lease(serial, Duration::ZERO);
            }
            // It is over by the clock, or it would not be needed.
            Some(Agent { lease: Lease::Live(_), .. }) => self.lose(serial, Lost::Disconnected),
            _ => {}
        }
    }

    fn ask_for_lease(&mut self, serial: AgentSerial, delay: Duration) {
        self.calls.push_back(Call::Lease { serial, delay });
    }

    /// A lease was asked for.
    pub(super) fn leased(
        &mut self,
        serial: AgentSerial,
        result: Result<(LeaseName, Term), Failure>,
    ) {
        let (name, term) = match result {
            Ok(leased) => leased,
            Err(failure) => return self.not_leased(serial, failure),
        };
        let lease = name.id;
        let Some(agent) = self.agents.get_mut(&serial) else {
            // It has ended meanwhile.
            return self.revoke(None, lease);
        };
        if !self.shared.table().renew(serial, agent.id, self.options.span(term)) {
            // It took too long to be of use.
            self.revoke(None, lease);
            return self.ask_for_lease(serial, Duration::ZERO);
        }
        agent.lease = Lease::Live(lease);
        self.shared.table().set_lease(serial, agent.id, name);
        let bucket = agent.bucket;
        self.keep(serial, lease, Some(term.time_to_live));
        self.publish(serial);
        self.step_all(bucket);
    }

    /// Has a lease be kept, which is new and made for this long, or was another's.
    pub(super) fn keep(&mut self, serial: AgentSerial, lease: i64, time_to_live: Option<Duration>) {
        self.calls.push_back(Call::Keep { serial, lease, time_to_live });
    }

    fn not_leased(&mut self, serial: AgentSerial, failure: Failure) {
        let Some(agent) = self.agents.get_mut(&serial) else { return };
        let (id, bucket) = (agent.id, agent.bucket);
        let may_wait = matches!(failure, Failure::Unknown(_));
        let patience = if may_wait { self.options.time_to_live } else { Duration::ZERO };
        let error = failure.error();
        let (wakers, is_wanted) = self.shared.table().fail_agent(serial, id, &error, patience);
        if is_wanted {
            self.ask_for_lease(serial, Duration::from_millis(100));
        } else {
            agent.lease = Lease::None;
        }
        if !wakers.is_empty() {
            wake(wakers);
            self.step_all(bucket);
        }
    }

    /// Word of a lease.
    pub(super) fn leased_word(&mut self, serial: AgentSerial, lease: i64, word: Word) {
        let Some(agent) = self.agents.get(&serial).filter(|agent| agent.lease_id() == Some(lease))
        else {
            return;
        };
        let is_kept = match (word, agent.lease) {
            (Word::Gone, Lease::Live(lease)) => return self.doubt(serial, lease),
            (Word::Gone, _) => false,
            (Word::Renewed(term), Lease::Recalled(..)) => {
                self.revived(serial, lease, term);
                true
            }
            (Word::Renewed(term), _) => {
                self.shared.table().renew(serial, agent.id, self.options.span(term))
            }
        };
        if !is_kept {
            self.lose(serial, Lost::Disconnected);
        }
    }

    /// A transaction found that this lease has ended.
    pub(super) fn lease_is_gone(&mut self, bucket: u64, lease: i64) {
        let has = |agent: &Agent| agent.bucket == bucket && agent.lease_id() == Some(lease);
        let found = self.agents.iter().find(|(_, agent)| has(agent));
        match found.map(|(&serial, agent)| (serial, agent.lease)) {
            Some((serial, Lease::Live(lease))) => self.doubt(serial, lease),
            Some((serial, Lease::Recalled(..))) => self.lose(serial, Lost::Disconnected),
            _ => {}
        }
    }

    /// Tells those whose leases are over by the clock.
    pub(super) fn check_leases(&mut self) {
        let over: Vec<AgentSerial> = {
            let table = self.shared.table();
            let patience = self.options.time_to_live.min(PATIENCE);
            let is_over = |&(&serial, agent): &(&AgentSerial, &Agent)| match agent.lease {
                Lease::Live(_) | Lease::Doubted(_) => table.is_over(serial, agent.id),
                Lease::Recalled(_, since) => since.elapsed() >= patience,
                Lease::None | Lease::Coming(_) => false,
            };
            self.agents.iter().filter(is_over).map(|(&serial, _)| serial).collect()
        };
        for serial in over {
            self.lose(serial, Lost::Disconnected);
        }
    }

    /// Asks whether etcd still keeps a lease: something under it has gone.
    pub(super) fn look_after(&mut self, serial: AgentSerial, lease: i64) {
        let has = |agent: &Agent| agent.lease == Lease::Live(lease);
        if self.agents.get(&serial).is_some_and(has) {
            self.keep(serial, lease, None);
        }
    }

    /// An agent has lost what it had in etcd. It gets another lease when it asks for something.
    /// What it waits for is asked for again, in the order in which it was.
    pub(super) fn lose(&mut self, serial: AgentSerial, how: Lost) {
        let Some(agent) = self.agents.get_mut(&serial) else { return };
        let (id, bucket) = (agent.id, agent.bucket);
        let lease = std::mem::replace(&mut agent.lease, Lease::None);
        let waits_on = self.options.waits_through_outages;
        let (wakers, again) = self.shared.table().lose_agent(serial, id, how, waits_on);
        wake(wakers);
        for Again { bucket, name, id, key } in again {
            // What is on its way under this key, or is there, is nobody's from here on.
            self.slots.retire(key, id);
            if let Some(house) = self.buckets.get_mut(&bucket) {
                house.bucket.push_again(&NameKey::new(&name), vec![(id, serial)]);
            }
        }
        if let Some(lease) = lease.id() {
            self.calls.push_back(Call::LetGo { lease });
            // If it comes back before its end: nobody needs to wait for that.
            self.revoke(None, lease);
        }
        self.step_all(bucket);
    }

    /// An agent has ended.
    pub(super) fn end_agent(&mut self, serial: AgentSerial) {
        let Some(agent) = self.agents.remove(&serial) else { return };
        if let Some(lease) = agent.lease_id() {
            self.calls.push_back(Call::LetGo { lease });
            let bucket = agent.bucket;
            let of = self.buckets.get_mut(&bucket).map(|house| {
                let number = house.bucket.begin_beside();
                Revoked { bucket, number }
            });
            self.revoke(of, lease);
        }
        self.step_all(agent.bucket);
    }

    /// Ends a lease, with all that is under it.
    pub(super) fn revoke(&mut self, of: Option<Revoked>, lease: i64) {
        self.recalled.remove(&lease);
        self.calls.push_back(Call::Revoke { lease, of });
    }

    pub(super) fn describe(&mut self, serial: AgentSerial, info: AgentInfo) {
        if let Some(agent) = self.agents.get_mut(&serial) {
            agent.info = info;
            self.publish(serial);
        }
    }

    /// Writes what an agent says of itself. Nothing depends on it.
    pub(super) fn publish(&mut self, serial: AgentSerial) {
        let Some(agent) = self.agents.get(&serial) else { return };
        let (Lease::Live(lease), Some(house)) = (agent.lease, self.buckets.get(&agent.bucket))
        else {
            return;
        };
        if agent.info == AgentInfo::default() {
            return;
        }
        let (key, value) = (house.bucket.keys.agent(lease), encode_info(&agent.info));
        let transaction =
            Transaction { then: vec![Step::Put { key, value, lease }], ..Transaction::default() };
        self.calls.push_back(Call::Publish { transaction });
    }
}
