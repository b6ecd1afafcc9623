//! Agents, and what they ask for.

use std::{collections::HashMap, task::Waker, time::Duration};

use navlock_core::{AgentInfo, host::RequestKind};
use navlock_engine::RequestId;

use super::{
    AgentSerial, Call, Keeper, Shared,
    agent::{Agent, Stale},
    lease_states::{Lease, State},
    ownership, wake,
};
use crate::{
    bucket::{Surroundings, Wait},
    clock::{Uptime, wall_millis},
    data::{Check, Step, Transaction},
    hash::HashState,
    keys::{NameKey, Phase, RequestKey},
    slots::{Owner, Slots},
    table::{Finished, KnownOf, LocalOutcome, Sent, Status},
    transactions::{Ask, MOST, MOST_BYTES, Operation, Owning},
    values::{RequestNotes, Value},
};

/// How long after an agent has said something of itself that is written where it is not yet.
const SETTLED: Duration = Duration::from_millis(200);

/// How long it takes at most until it is written again, where it was not seen to have come to
/// anything.
const LONGEST: Duration = Duration::from_secs(5);

/// What a bucket may know of the rest.
struct Around<'a> {
    shared: &'a Shared,
    slots: &'a mut Slots,
    agents: &'a HashMap<AgentSerial, Agent, HashState>,
    leases: &'a HashMap<i64, Lease, HashState>,
    /// Who needs a lease.
    needs: Option<AgentSerial>,
    /// Under which lease names may be ours.
    owns: Option<i64>,
    /// The last revision that was heard of.
    revision: i64,
    /// Whom to wake.
    wakers: Vec<Waker>,
}

impl Surroundings for Around<'_> {
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
        let Some(agent) = self.agents.get(&serial) else {
            // It has come while the name was ours, and is about to be heard of.
            let is_wanted = matches!(table.status(id), Status::Pending(_));
            return is_wanted.then_some(Err(Wait));
        };
        // The name may be ours by now.
        if let Some(LocalOutcome::Answered { wakers, own, .. }) = table.take_here(id) {
            self.wakers.extend(wakers.into_iter().chain(own));
            return None;
        }
        if table.is_here(id) {
            return None;
        }
        let lease = agent.lease_id().filter(|id| {
            let is_live = self.leases.get(id).is_some_and(|lease| lease.state == State::Live);
            is_live && !table.is_over(serial, agent.id)
        });
        let Some(lease) = lease else {
            let is_wanted = matches!(table.status(id), Status::Pending(_));
            return is_wanted.then(|| {
                self.needs = Some(serial);
                Err(Wait)
            });
        };
        let Sent { name, kind: what, key: request, asked, said } = table.send(id, self.slots)?;
        let (client_id, since, place) = (agent.client_id, wall_millis(), id.serial());
        let info = agent.info.clone();
        let value = Value { client_id, since, asked, place, mark: 0, info, said, name };
        let value = value.encode();
        Some(Ok((Ask { request, mode: what.mode(), lease, value }, what)))
    }

    fn keep_back(&mut self, id: RequestId) {
        if let Some(key) = self.shared.table().keep_back(id) {
            // Nothing was sent about it.
            self.slots.free(key, id, 0);
        }
    }

    fn owning(&self, name: &NameKey) -> Option<Owning> {
        // Of a name that is known by its hash the key alone would not say which it is.
        let lease = self.owns.filter(|_| !name.is_hash())?;
        // Nobody says it of the connection, but those who use it are on one machine.
        let hosts = self.agents.values().map(|agent| &*agent.info.host);
        let host = hosts.filter(|host| !host.is_empty()).min().unwrap_or_default();
        Some(ownership::owning(self.slots.me(), lease, self.revision, host))
    }

    fn me(&self) -> u128 {
        self.slots.me()
    }
}

impl Keeper {
    /// What is next for a name.
    pub(super) fn next_operation(&mut self, bucket: u64, key: &NameKey) -> Option<Operation> {
        let owns = self.may_own();
        let revision = self.history.revision();
        let Self { shared, slots, agents, leases, .. } = self;
        let (needs, wakers) = (None, Vec::new());
        let mut around = Around { shared, slots, agents, leases, needs, owns, revision, wakers };
        let operation = self.buckets.get_mut(&bucket)?.bucket.step(key, &mut around);
        let Around { needs, wakers, .. } = around;
        wake(wakers);
        if let Some(serial) = needs {
            self.need_lease(serial);
        }
        operation
    }

    /// An agent has ended. What it had in etcd goes in one transaction of each name; its lease is
    /// others' as well.
    pub(super) fn end_agent(&mut self, serial: AgentSerial, ended: Vec<(RequestId, Finished)>) {
        let Some(agent) = self.agents.remove(&serial) else { return };
        // All of them before the first of them is on its way.
        let mut names = Vec::new();
        for (id, finished) in ended {
            names.extend(self.note_finished(id, finished));
        }
        names.dedup();
        for (bucket, name) in names {
            self.step(bucket, &name);
        }
        self.let_go_unused();
        self.step_all(agent.bucket);
    }

    pub(super) fn describe(&mut self, serial: AgentSerial, info: AgentInfo) {
        if let Some(agent) = self.agents.get_mut(&serial) {
            agent.info = info;
            agent.stale = agent.stale.map(|stale| Stale { since: Uptime::now(), ..stale });
            self.say_anew(serial);
        }
    }

    /// There is more to say of what an agent has than etcd may know. What was to be said before is not put off
    /// by that, however often there is more.
    pub(super) fn say_anew(&mut self, serial: AgentSerial) {
        if let Some(agent) = self.agents.get_mut(&serial) {
            let known = agent.stale.map(|stale| (stale.since, stale.is_writing));
            let (since, is_writing) = known.unwrap_or_else(|| (Uptime::now(), false));
            agent.stale = Some(Stale { since, pause: SETTLED, is_writing });
        }
    }

    /// Has what agents have in etcd say what they have said of themselves since. Not at once: most
    /// locks are held for a moment, and nothing depends on it.
    pub(super) fn check_descriptions(&mut self) {
        let is_due = |agent: &Agent| agent.stale.as_ref().is_some_and(Stale::is_due);
        let due = self.agents.iter().filter(|(_, agent)| is_due(agent));
        let mut due: Vec<AgentSerial> = due.map(|(&serial, _)| serial).collect();
        due.sort_unstable();
        for serial in due {
            let described = self.described_anew(serial);
            let Some(agent) = self.agents.get_mut(&serial) else { continue };
            // Once more if there was something: it may come to nothing, or be overtaken by a grant.
            let Some((described, stale)) = described.zip(agent.stale.as_mut()) else {
                agent.stale = None;
                continue;
            };
            stale.since = Uptime::now();
            stale.is_writing = !described.is_empty();
            if stale.is_writing {
                let transaction = Transaction { then: described, ..Transaction::default() };
                self.calls.push_back(Call::Describe { of: serial, transaction });
            }
        }
    }

    /// What was to be written of an agent has been, or has come to nothing: the watch will tell.
    pub(super) fn described(&mut self, serial: AgentSerial) {
        let agent = self.agents.get_mut(&serial);
        if let Some(stale) = agent.and_then(|agent| agent.stale.as_mut()) {
            (stale.since, stale.is_writing) = (Uptime::now(), false);
            stale.pause = (stale.pause * 2).min(LONGEST);
        }
    }

    /// What is to be written for that, as much as goes into one transaction; `None` if all that the
    /// agent has says so by now.
    fn described_anew(&self, serial: AgentSerial) -> Option<Vec<Step>> {
        let agent = self.agents.get(&serial)?;
        let opened = self.buckets.get(&agent.bucket)?;
        let (mut steps, mut bytes, mut is_known) = (Vec::new(), 0, true);
        for KnownOf { name, key, said } in self.shared.table().known_of(agent.id) {
            let found = opened.bucket.mirror(&name).and_then(|mirror| mirror.find(key));
            let Some((phase, entry)) = found else {
                // It is on its way.
                is_known = false;
                continue;
            };
            let Some(value) = Value::decode(&entry.value) else { continue };
            // What was said of the request does not matter any more once it is a lock. And what was said by way
            // of a broker before this one is so until it is said again.
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
                // Each by itself: one of them may have gone.
                steps.push(Step::Within(Transaction { when, then, or_else: Vec::new() }));
            }
        }
        (!is_known || !steps.is_empty()).then_some(steps)
    }
}
