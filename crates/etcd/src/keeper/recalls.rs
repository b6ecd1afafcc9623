//! Going on with what agents had through another connection, whose process has ended.
//!
//! Its leases go on for a while, and so does all that is under them. Which key is which request is
//! not written there: it is told from the order. What is left over was ended, or is not wanted any
//! more.

use std::{collections::HashSet, time::Duration};

use navlock_core::backend::{Claim, Ticket};
use tokio::sync::oneshot;

use super::{AgentSerial, Keeper, agents::Lease, wake};
use crate::{
    bucket::Todo,
    clock::Moment,
    keys::{NameKey, Phase, RequestKey},
    lease::Term,
    mirror::{Entry, Mirror},
    query::token,
    slots::Owner,
    table::State,
    transactions::Ended,
    values::Value,
};

/// An agent that wants to go on with what it had.
pub(super) struct Recall {
    serial: AgentSerial,
    since: Moment,
    claims: Vec<Claim>,
    answer: oneshot::Sender<Vec<Option<Ticket>>>,
}

/// What is there of an agent: where, and which of its claims it is.
struct Found {
    name: NameKey,
    phase: Phase,
    entry: Entry,
    claim: Option<usize>,
}

impl Keeper {
    pub(super) fn recall(
        &mut self,
        serial: AgentSerial,
        claims: Vec<Claim>,
        answer: oneshot::Sender<Vec<Option<Ticket>>>,
    ) {
        let Some(bucket) = self.agents.get(&serial).map(|agent| agent.bucket) else { return };
        self.watch(bucket);
        self.recalls.push(Recall { serial, since: Moment::now(), claims, answer });
        self.advance_recalls();
    }

    /// Answers those whose buckets are known by now.
    pub(super) fn advance_recalls(&mut self) {
        let is_known = |keeper: &Self, recall: &Recall| {
            let bucket = keeper.agents.get(&recall.serial).map(|agent| agent.bucket);
            let house = bucket.and_then(|bucket| keeper.buckets.get(&bucket));
            house.is_none_or(|house| house.bucket.mirror.is_listed())
        };
        while let Some(nth) = self.recalls.iter().position(|recall| is_known(self, recall)) {
            let recall = self.recalls.swap_remove(nth);
            self.recall_now(recall);
        }
    }

    /// Answers those for whom it has taken too long: their leases have ended by now.
    pub(super) fn check_recalls(&mut self) {
        let patience = self.options.time_to_live;
        let is_late = |recall: &Recall| recall.since.elapsed() >= patience;
        while let Some(nth) = self.recalls.iter().position(is_late) {
            let late = self.recalls.swap_remove(nth);
            let _ = late.answer.send(vec![None; late.claims.len()]);
        }
    }

    fn recall_now(&mut self, recall: Recall) {
        let Recall { serial, claims, answer, .. } = recall;
        let mut tickets = vec![None; claims.len()];
        let Some(agent) = self.agents.get(&serial) else { return };
        let (id, bucket, client_id) = (agent.id, agent.bucket, agent.client_id);
        let Some(house) = self.buckets.get_mut(&bucket) else { return };
        let is_its = |entry: &Entry| {
            let value = Value::decode(&entry.value);
            value.is_some_and(|value| value.client_id == client_id)
                && self.slots.owner(entry.request, entry.made) == Owner::Foreign
        };
        let mut found = find(&house.bucket.mirror, is_its, &claims);
        // An agent has one lease. Under another there is what was lost before.
        let lease = found.iter().rev().find(|found| found.claim.is_some());
        let lease = lease.map(|found| found.entry.lease);
        found.retain(|found| Some(found.entry.lease) == lease || found.claim.is_none());

        let kept: HashSet<RequestKey> =
            found.iter().filter(|of| of.claim.is_some()).map(|of| of.entry.request).collect();
        for Found { name, phase, entry, claim } in found {
            let claimed = claim.and_then(|nth| {
                let (name, kind) = (claims[nth].name.clone(), claims[nth].kind);
                let mut table = self.shared.table();
                Some((nth, table.recall(serial, id, name, kind, entry.request)?))
            });
            if let Some((nth, request)) = claimed {
                self.slots.adopt(entry.request, request);
                tickets[nth] = Some(Ticket { lane: 0, id: request });
            } else {
                // Of one that is kept, a late try may have put another key.
                let only = kept.contains(&entry.request).then_some(phase);
                house.bucket.push(name, Todo::Remove(Ended { only, ..entry.ended() }));
            }
        }
        if let (Some(lease), Some(agent)) = (lease, self.agents.get_mut(&serial)) {
            agent.lease = Lease::Recalled(lease, Moment::now());
            self.recalled.insert(lease);
            // In whole seconds, as it was made.
            let seconds = u64::try_from(self.options.seconds()).unwrap_or_default();
            self.keep(serial, lease, Duration::from_secs(seconds), true);
        }
        if answer.send(tickets).is_err() {
            // Nobody wants them any more.
            self.lose(serial);
        }
        self.step_all(bucket);
    }

    /// A lease that was another connection's is kept by us.
    pub(super) fn revived(&mut self, serial: AgentSerial, lease: i64, term: Term) {
        let Some(agent) = self.agents.get_mut(&serial) else { return };
        agent.lease = Lease::Live(lease);
        let (id, bucket) = (agent.id, agent.bucket);
        let Some(house) = self.buckets.get(&bucket) else { return };
        let mut wakers = Vec::new();
        let mut table = self.shared.table();
        table.revive(serial, id, term.ends());
        // What was granted meanwhile could not be answered yet.
        for (request, key) in table.pending_of(id) {
            match house.bucket.has(key) {
                (Some(made), _) => {
                    wakers.extend(table.answer(request, State::Held(token(made), Vec::new())));
                }
                (None, Some(made)) => table.queued(request, made),
                (None, None) => {}
            }
        }
        drop(table);
        wake(wakers);
        self.publish(serial);
        self.step_all(bucket);
    }
}

/// What is there of an agent, in the order of the requests, and which of its claims it is.
///
/// A lock is known by its token. What else there is, locks of which the agent has not heard and
/// requests, is told by the order: of one name and mode, the last claims are the last that are
/// there, and what is there before them was ended. If there are more claims than that, the last of
/// them never got here.
fn find(mirror: &Mirror, is_its: impl Fn(&Entry) -> bool, claims: &[Claim]) -> Vec<Found> {
    let entries = mirror.entries().filter(|(_, _, entry)| is_its(entry));
    let mut found: Vec<Found> = entries
        .map(|(name, phase, entry)| Found {
            name: name.clone(),
            phase,
            entry: entry.clone(),
            claim: None,
        })
        .collect();
    // Those that are held were asked for before those that wait.
    found.sort_by_key(|found| {
        let Entry { made, request, ref value, .. } = found.entry;
        (found.phase == Phase::Queued, made, Value::place(value), request)
    });
    // What is held and stands in the queue as well was put there by a late try.
    let held: HashSet<RequestKey> = found
        .iter()
        .filter(|found| found.phase == Phase::Held)
        .map(|found| found.entry.request)
        .collect();
    let is_late =
        |found: &Found| found.phase == Phase::Queued && held.contains(&found.entry.request);
    let names: Vec<NameKey> = claims.iter().map(|claim| NameKey::new(&claim.name)).collect();
    for (nth, claim) in claims.iter().enumerate() {
        let Some(held) = claim.token else { continue };
        let is_it = |found: &&mut Found| {
            found.claim.is_none()
                && found.phase == Phase::Held
                && found.name == names[nth]
                && found.entry.mode == claim.kind.mode()
                && token(found.entry.made) == held
        };
        if let Some(found) = found.iter_mut().find(is_it) {
            found.claim = Some(nth);
        }
    }
    let waiting = |nth: usize| claims[nth].token.is_none();
    let sorts: HashSet<_> = (0..claims.len())
        .filter(|&nth| waiting(nth))
        .map(|nth| (&names[nth], claims[nth].kind.mode()))
        .collect();
    for (name, mode) in sorts {
        let claimed: Vec<usize> = (0..claims.len())
            .filter(|&nth| waiting(nth) && names[nth] == *name && claims[nth].kind.mode() == mode)
            .collect();
        let there: Vec<&mut Found> = found
            .iter_mut()
            .filter(|found| {
                let is_sort = found.name == *name && found.entry.mode == mode;
                found.claim.is_none() && is_sort && !is_late(found)
            })
            .collect();
        let ended = there.len().saturating_sub(claimed.len());
        for (found, nth) in there.into_iter().skip(ended).zip(claimed) {
            found.claim = Some(nth);
        }
    }
    found
}
