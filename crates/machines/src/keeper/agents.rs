//! Agents, and their requests.

use std::task::Waker;

use navlock_core::{AgentInfo, host::RequestKind};
use navlock_engine::RequestId;

use super::{Agent, AgentSerial, Call, Keeper, Shared, UnderLease, ownership, wake};
use crate::{
    bucket::{BucketHost, Wait},
    clock::wall_millis,
    data::{Check, Step, Transaction},
    keys::{NameKey, Phase, RequestKey},
    leases::{Leases, Stale},
    slots::{Owner, Slots},
    table::{Finished, KnownOf, LocalOutcome, Sent, Status},
    transactions::{Ask, MOST, MOST_BYTES, Operation, Owning},
    values::{RequestNotes, Value},
};

/// What a bucket may see of the keeper.
struct Around<'a> {
    shared: &'a Shared,
    slots: &'a mut Slots,
    leases: &'a Leases<UnderLease>,
    /// The agent that needs a lease.
    needs: Option<AgentSerial>,
    /// The lease under which this connection may own names.
    owns: Option<i64>,
    /// The last revision that was heard of.
    revision: i64,
    /// The wakers to call.
    wakers: Vec<Waker>,
}

impl BucketHost for Around<'_> {
    fn owner(&self, key: RequestKey, made: i64) -> Owner {
        self.slots.owner(key, made)
    }

    fn status(&self, id: RequestId) -> Status {
        self.shared.table().status(id)
    }

    fn ask(
        &mut self,
        serial: AgentSerial,
        id: RequestId,
    ) -> Option<Result<(Ask, RequestKind), Wait>> {
        let mut table = self.shared.table();
        let Some(agent) = self.leases.agents.get(&serial) else {
            // The agent was opened while the name was owned, and the thread will hear of the agent
            // in a moment.
            let is_wanted = matches!(table.status(id), Status::Pending(_));
            return is_wanted.then_some(Err(Wait));
        };
        // The connection may own the name already.
        if let Some(LocalOutcome::Answered { wakers, own, .. }) = table.take_here(id) {
            self.wakers.extend(wakers.into_iter().chain(own));
            return None;
        }
        if table.is_here(id) {
            return None;
        }
        let lease = agent
            .lease()
            .filter(|id| self.leases.live(*id).is_some() && !table.is_over(serial, agent.id));
        let Some(lease) = lease else {
            let is_wanted = matches!(table.status(id), Status::Pending(_));
            return is_wanted.then(|| {
                self.needs = Some(serial);
                Err(Wait)
            });
        };
        let Sent { name, kind: what, key: request, serial: number, said } =
            table.send(id, |id| self.slots.take(id))?;
        let (client_id, since, place) = (agent.client_id, wall_millis(), id.serial());
        let info = agent.info.clone();
        let value = Value { client_id, since, serial: number, place, mark: 0, info, said, name };
        let value = value.encode();
        Some(Ok((Ask { request, mode: what.mode(), lease, value }, what)))
    }

    fn keep_back(&mut self, id: RequestId) {
        if let Some(key) = self.shared.table().keep_back(id) {
            // Nothing was sent for the request.
            self.slots.free(key, id, 0);
        }
    }

    fn refuse(&mut self, id: RequestId) {
        self.wakers.extend(self.shared.table().refuse(id));
    }

    fn owning(&self, name: &NameKey) -> Option<Owning> {
        // Keys contain only the hash of such a name, so the owner key alone would not tell the
        // name.
        let lease = self.owns.filter(|_| !name.is_hash())?;
        // The connection itself does not know its host, but all agents that use it are on one
        // machine.
        let hosts = self.leases.agents.values().map(|agent| &*agent.info.host);
        let host = hosts.filter(|host| !host.is_empty()).min().unwrap_or_default();
        let lasts = self.leases.get(lease)?.renewal.time_to_live;
        Some(ownership::owning(self.slots.me(), (lease, lasts), self.revision, host))
    }

    fn me(&self) -> u128 {
        self.slots.me()
    }
}

impl Keeper {
    /// The next operation on a name.
    pub(super) fn next_operation(&mut self, bucket: u64, key: &NameKey) -> Option<Operation> {
        let owns = self.may_own();
        let revision = self.history.revision();
        let Self { shared, slots, leases, .. } = self;
        let (needs, wakers) = (None, Vec::new());
        let mut around = Around { shared, slots, leases, needs, owns, revision, wakers };
        let operation = self.buckets.get_mut(&bucket)?.bucket.step(key, &mut around);
        let Around { needs, wakers, .. } = around;
        wake(wakers);
        if let Some(serial) = needs {
            self.need_lease(serial);
        }
        operation
    }

    /// An agent has ended. Its keys are removed in one transaction for each name. Its lease stays,
    /// because other agents share it.
    pub(super) fn end_agent(&mut self, serial: AgentSerial, ended: Vec<(RequestId, Finished)>) {
        let Some(agent) = self.leases.agents.remove(&serial) else { return };
        // All names are gathered before the first removal is on its way.
        let mut names = Vec::new();
        for (id, finished) in ended {
            names.extend(self.note_finished(id, finished));
        }
        names.dedup();
        for (bucket, name) in names {
            self.step(bucket, &name);
        }
        for unused in self.leases.let_go_unused() {
            self.gone.retain(|gone| gone.lease != unused);
        }
        self.step_all(agent.bucket);
    }

    pub(super) fn describe(&mut self, serial: AgentSerial, info: &AgentInfo) {
        if let Some(agent) = self.leases.agents.get_mut(&serial) {
            agent.describe(info);
        }
    }

    /// Writes what agents have said of themselves to their keys. This is done only after a while,
    /// because most locks are held for a moment, and nothing depends on the description.
    pub(super) fn check_descriptions(&mut self) {
        let is_due = |agent: &Agent| agent.stale.as_ref().is_some_and(Stale::is_due);
        let due = self.leases.agents_that(is_due);
        for serial in due {
            let described = self.described_anew(serial);
            let Some(agent) = self.leases.agents.get_mut(&serial) else { continue };
            // If something was written, the keys are looked at again, because the write may fail,
            // or a grant may overtake it.
            let Some((described, stale)) = described.zip(agent.stale.as_mut()) else {
                agent.stale = None;
                continue;
            };
            stale.looked(!described.is_empty());
            if !described.is_empty() {
                let transaction = Transaction { then: described, ..Transaction::default() };
                self.calls.push_back(Call::Describe { of: serial, transaction });
            }
        }
    }

    /// To be called when the description of an agent was written, or could not be. The watch will
    /// tell which.
    pub(super) fn described(&mut self, serial: AgentSerial) {
        let agent = self.leases.agents.get_mut(&serial);
        if let Some(stale) = agent.and_then(|agent| agent.stale.as_mut()) {
            stale.written();
        }
    }

    /// The steps that write an agent's description, as many as fit into one transaction. `None` if
    /// all of the agent's keys have this description already.
    fn described_anew(&self, serial: AgentSerial) -> Option<Vec<Step>> {
        let agent = self.leases.agents.get(&serial)?;
        let opened = self.buckets.get(&agent.bucket)?;
        let (mut steps, mut bytes, mut is_known) = (Vec::new(), 0, true);
        for KnownOf { name, key, said } in self.shared.table().known_of(agent.id) {
            let found = opened.bucket.mirror(&name).and_then(|mirror| mirror.find(key));
            let Some((phase, entry)) = found else {
                // The key is on its way.
                is_known = false;
                continue;
            };
            let Some(value) = Value::decode(&entry.value) else { continue };
            // When a request has become a lock, what was said of the request does not matter any
            // more. What was said through an earlier broker is valid until it is said again.
            let is_news = phase == Phase::Queued && said != RequestNotes::default();
            let said = if is_news { said } else { value.said.clone() };
            if value.info != agent.info || value.said != said {
                let value = Value { info: agent.info.clone(), said, ..value }.encode();
                bytes += value.len();
                if steps.len() == MOST || !steps.is_empty() && bytes > MOST_BYTES {
                    break;
                }
                let key = opened.bucket.keys.name(&name).request(phase, entry.mode, key);
                let when = vec![Check::MadeIn(key.clone(), entry.made)];
                let then = vec![Step::Put { key, value, lease: entry.lease }];
                // Each step is a transaction of its own, because one of the keys may have gone.
                steps.push(Step::Within(Transaction { when, then, or_else: Vec::new() }));
            }
        }
        (!is_known || !steps.is_empty()).then_some(steps)
    }
}
