//! Agents and their leases.

use std::time::Duration;

use futures_util::FutureExt;
use navlock_core::{AgentInfo, ClientId};
use navlock_engine::AgentId;
use tokio::{task::JoinHandle, time::Instant};

use super::{AgentSerial, Done, Keeper, Message, kind, wake};
use crate::{
    bucket::{Kind, Surroundings, Wait},
    calls::{self, Failure},
    clock::wall_millis,
    keys::{NameKey, RequestKey},
    lease::{self, Term, Word},
    table::{Status, Table},
    thread::Shared,
    transactions::{Ask, Operation},
    values::{Value, encode_info},
};

/// An agent, as the thread knows it.
pub(super) struct Agent {
    pub(super) bucket: u64,
    id: AgentId,
    client_id: ClientId,
    info: AgentInfo,
    lease: Lease,
}

enum Lease {
    /// It has asked for nothing since it had one, if it ever had.
    None,
    /// Asked for, since then.
    Coming(Instant),
    Live {
        id: i64,
        keep: JoinHandle<()>,
    },
}

impl Agent {
    pub(super) fn new(bucket: u64, id: AgentId, client_id: ClientId) -> Self {
        Self { bucket, id, client_id, info: AgentInfo::default(), lease: Lease::None }
    }
}

/// What a bucket may know of the rest.
struct Around<'a> {
    owner: u128,
    shared: &'a Shared,
    agents: &'a std::collections::HashMap<AgentSerial, Agent, foldhash::fast::RandomState>,
    /// Who needs a lease.
    needs: Option<AgentSerial>,
}

impl Surroundings for Around<'_> {
    fn owner(&self) -> u128 {
        self.owner
    }

    fn table<T>(&self, look: impl FnOnce(&mut Table) -> T) -> T {
        look(&mut self.shared.table())
    }

    fn ask(
        &mut self,
        serial: AgentSerial,
        request: RequestKey,
    ) -> Option<Result<(Ask, Kind), Wait>> {
        let agent = self.agents.get(&serial)?;
        let id = request.id();
        let is_over = self.shared.table().is_over(serial, agent.id);
        let lease = match agent.lease {
            Lease::Live { id: lease, .. } if !is_over => lease,
            _ => {
                let is_wanted = matches!(self.shared.table().status(id), Status::Pending(_));
                return is_wanted.then(|| {
                    self.needs = Some(serial);
                    Err(Wait)
                });
            }
        };
        let (name, asked) = self.shared.table().send(id)?;
        let name = NameKey::new(&name).is_hash().then_some(name);
        let value = Value { client_id: agent.client_id, since: wall_millis(), name }.encode();
        Some(Ok((Ask { request, mode: asked.mode(), lease, value }, kind(asked))))
    }
}

impl Keeper {
    /// What is next for a name.
    pub(super) fn next_operation(&mut self, bucket: u64, key: &NameKey) -> Option<Operation> {
        let mut around =
            Around { owner: self.owner, shared: &self.shared, agents: &self.agents, needs: None };
        let operation = self.buckets.get_mut(&bucket)?.bucket.step(key, &mut around);
        if let Some(serial) = around.needs {
            self.need_lease(serial);
        }
        operation
    }

    fn need_lease(&mut self, serial: AgentSerial) {
        match self.agents.get_mut(&serial) {
            Some(Agent { lease: lease @ Lease::None, .. }) => {
                *lease = Lease::Coming(Instant::now());
                self.ask_for_lease(serial, Duration::ZERO);
            }
            // It is over by the clock, or it would not be needed.
            Some(Agent { lease: Lease::Live { .. }, .. }) => self.lose(serial),
            _ => {}
        }
    }

    fn ask_for_lease(&mut self, serial: AgentSerial, delay: Duration) {
        let (client, seconds) = (self.client.lease_client(), self.options.seconds());
        let call = calls::lease(client, seconds, delay, self.options.call());
        self.running.push(call.map(move |result| Done::Leased { serial, result }).boxed());
    }

    /// A lease was asked for.
    pub(super) fn leased(&mut self, serial: AgentSerial, result: Result<(i64, Term), Failure>) {
        let (id, term) = match result {
            Ok(leased) => leased,
            Err(failure) => return self.not_leased(serial, failure),
        };
        let Some(agent) = self.agents.get_mut(&serial) else {
            // It has ended meanwhile.
            return self.revoke(None, id);
        };
        if !self.shared.table().renew(serial, agent.id, term.ends()) {
            // It took too long to be of use.
            self.revoke(None, id);
            return self.ask_for_lease(serial, Duration::ZERO);
        }
        let tell = self.tell.clone();
        let (client, patience) = (self.client.lease_client(), self.options.call());
        let keep = lease::keep(client, id, term.time_to_live, patience, move |word| {
            if let Some(tell) = tell.upgrade() {
                let _ = tell.send(Message::Lease { serial, lease: id, word });
            }
        });
        agent.lease = Lease::Live { id, keep: tokio::spawn(keep) };
        let bucket = agent.bucket;
        self.publish(serial);
        let names = self.buckets.get(&bucket).map(|house| house.bucket.names());
        for name in names.unwrap_or_default() {
            self.step(bucket, &name);
        }
    }

    fn not_leased(&mut self, serial: AgentSerial, failure: Failure) {
        let Some(agent) = self.agents.get_mut(&serial) else { return };
        let Lease::Coming(since) = agent.lease else { return };
        let may_wait = since.elapsed() < self.options.time_to_live;
        if matches!(failure, Failure::Unknown(_)) && may_wait {
            return self.ask_for_lease(serial, Duration::from_millis(100));
        }
        agent.lease = Lease::None;
        let (id, bucket) = (agent.id, agent.bucket);
        let wakers = self.shared.table().fail_agent(serial, id, &failure.error());
        wake(wakers);
        self.step_all(bucket);
    }

    /// Does what is next for all names of which something is to be done.
    fn step_all(&mut self, bucket: u64) {
        let names = self.buckets.get(&bucket).map(|house| house.bucket.names());
        for name in names.unwrap_or_default() {
            self.step(bucket, &name);
        }
        self.advance_queries();
    }

    /// Word of a lease.
    pub(super) fn leased_word(&mut self, serial: AgentSerial, lease: i64, word: Word) {
        let Some(agent) = self.agents.get(&serial) else { return };
        if !matches!(agent.lease, Lease::Live { id, .. } if id == lease) {
            return;
        }
        let is_kept = match word {
            Word::Renewed(term) => self.shared.table().renew(serial, agent.id, term.ends()),
            Word::Gone => false,
        };
        if !is_kept {
            self.lose(serial);
        }
    }

    /// A transaction found that this lease has ended.
    pub(super) fn lease_is_gone(&mut self, bucket: u64, lease: i64) {
        let has = |agent: &Agent| {
            agent.bucket == bucket && matches!(agent.lease, Lease::Live { id, .. } if id == lease)
        };
        let found = self.agents.iter().find(|(_, agent)| has(agent)).map(|(&serial, _)| serial);
        if let Some(serial) = found {
            self.lose(serial);
        }
    }

    /// Tells those whose leases are over by the clock.
    pub(super) fn check_leases(&mut self) {
        let over: Vec<AgentSerial> = {
            let table = self.shared.table();
            let is_over = |&(&serial, agent): &(&AgentSerial, &Agent)| {
                matches!(agent.lease, Lease::Live { .. }) && table.is_over(serial, agent.id)
            };
            self.agents.iter().filter(is_over).map(|(&serial, _)| serial).collect()
        };
        for serial in over {
            self.lose(serial);
        }
    }

    /// An agent has lost what it had in etcd. It gets another lease when it asks for something.
    pub(super) fn lose(&mut self, serial: AgentSerial) {
        let Some(agent) = self.agents.get_mut(&serial) else { return };
        let (id, bucket) = (agent.id, agent.bucket);
        let lease = std::mem::replace(&mut agent.lease, Lease::None);
        let wakers = self.shared.table().lose_agent(serial, id);
        wake(wakers);
        if let Lease::Live { id, keep } = lease {
            keep.abort();
            // If it comes back before its end: nobody needs to wait for that.
            self.revoke(None, id);
        }
        self.step_all(bucket);
    }

    /// An agent has ended.
    pub(super) fn end_agent(&mut self, serial: AgentSerial) {
        let Some(agent) = self.agents.remove(&serial) else { return };
        if let Lease::Live { id, keep } = agent.lease {
            keep.abort();
            let number = self.buckets.get_mut(&agent.bucket).map(|house| {
                let number = house.bucket.begin_beside();
                (agent.bucket, number)
            });
            self.revoke(number, id);
        }
        self.step_all(agent.bucket);
    }

    /// Ends a lease, with all that is under it.
    fn revoke(&mut self, for_whom: Option<(u64, u64)>, lease: i64) {
        let (client, patience) = (self.client.lease_client(), self.options.call());
        let call = calls::revoke(client, lease, self.options.time_to_live, patience);
        let done = call.map(move |()| match for_whom {
            Some((bucket, number)) => Done::Revoked { bucket, number },
            None => Done::Nothing,
        });
        self.running.push(done.boxed());
    }

    pub(super) fn describe(&mut self, serial: AgentSerial, info: AgentInfo) {
        if let Some(agent) = self.agents.get_mut(&serial) {
            agent.info = info;
            self.publish(serial);
        }
    }

    /// Writes what an agent says of itself. Nothing depends on it.
    fn publish(&mut self, serial: AgentSerial) {
        let Some(agent) = self.agents.get(&serial) else { return };
        let (Lease::Live { id, .. }, Some(house)) = (&agent.lease, self.buckets.get(&agent.bucket))
        else {
            return;
        };
        if agent.info == AgentInfo::default() {
            return;
        }
        let options = etcd_client::PutOptions::new().with_lease(*id);
        let (key, value) = (house.bucket.keys.agent(*id), encode_info(&agent.info));
        let put = etcd_client::TxnOp::put(key, value, Some(options));
        let transaction = etcd_client::Txn::new().and_then([put]);
        let patience = self.options.call();
        let call = calls::transaction(self.kv.clone(), transaction, Duration::ZERO, patience);
        self.running.push(call.map(|_| Done::Nothing).boxed());
    }
}
