//! Reclaims: this connection takes over locks and requests that agents had through another
//! connection, whose process has ended.
//!
//! The leases of that connection last for a while, and so do the locks and requests under them. If
//! no agent claims a lock or request, its agent has ended it, or does not want it any more. So it
//! is removed.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use navlock_core::{
    Lost, Mode,
    host::{Claim, Ticket},
};
use tokio::sync::oneshot;

use super::{AgentSerial, Call, Keeper, pending_reclaim::Reclaim, wake};
use crate::{
    bucket::{Bucket, Todo},
    call_failure::Failure,
    clock::{Uptime, wall_millis},
    data::{Answer, Check, Step, StepResult, Transaction},
    ended::Ended,
    keys::{NameKey, Phase, RequestKey},
    lease::Renewal,
    leases::RECLAIM_TIMEOUT,
    mirror::{Entry, Mirror},
    slots::Owner,
    table::State,
    tokens::{self, token},
    transactions::{MOST, others},
    values::{RequestNotes, Value},
};

/// Marks the slots of locks that an owner of their names had granted, and that are now written so that they
/// can be taken over. No request has had such a slot. The rest of the slot is the lock's token. The token is
/// unique, because no two names become owned in one revision.
const ADOPTED: u64 = 1 << 63;

/// A lock or request of an agent that was found, and the claim that it answers.
struct Found {
    name: NameKey,
    phase: Phase,
    entry: Entry,
    claim: Option<usize>,
}

impl Keeper {
    pub(super) fn reclaim(
        &mut self,
        serial: AgentSerial,
        claims: Vec<Claim>,
        answer: oneshot::Sender<Vec<Option<Ticket>>>,
    ) {
        let Some(bucket) = self.leases.agents.get(&serial).map(|agent| agent.bucket) else {
            return;
        };
        let names: Vec<_> = claims.iter().map(|claim| NameKey::new(&claim.name)).collect();
        for name in &names {
            self.open_view(bucket, name, None);
        }
        let (since, after, is_settled) = (Uptime::now(), 0, false);
        self.reclaims.push(Reclaim { serial, since, claims, names, after, is_settled, answer });
        self.advance_reclaims();
    }

    /// Answers the reclaims whose names are all known.
    pub(super) fn advance_reclaims(&mut self) {
        let is_known = |keeper: &Self, reclaim: &Reclaim| {
            let bucket = keeper.leases.agents.get(&reclaim.serial).map(|agent| agent.bucket);
            let is_fresh = |of: &Mirror| of.is_listed() && of.revision() >= reclaim.after;
            let view = |name| keeper.view(bucket?, name);
            reclaim.names.iter().filter_map(view).all(|view| is_fresh(&view.mirror))
        };
        while let Some(nth) = self.reclaims.iter().position(|reclaim| is_known(self, reclaim)) {
            let reclaim = self.reclaims.swap_remove(nth);
            self.reclaim_now(reclaim);
        }
    }

    /// Lists the names of reclaims whose locks were written and were not seen in a list yet. The
    /// list that should have shown them may have failed, or may have begun before the locks were
    /// written.
    fn look_for_adopted(&mut self) {
        let mut unseen = Vec::new();
        for reclaim in self.reclaims.iter().filter(|reclaim| reclaim.after > 0) {
            let Some(agent) = self.leases.agents.get(&reclaim.serial) else { continue };
            let is_behind = |name: &&NameKey| {
                let view = self.view(agent.bucket, name);
                view.is_some_and(|view| view.mirror.revision() < reclaim.after)
            };
            let names = reclaim.names.iter().filter(is_behind).cloned();
            unseen.extend(names.map(|name| (agent.bucket, name)));
        }
        for (bucket, name) in unseen {
            self.look(bucket, &name, Duration::ZERO);
        }
    }

    /// Answers the reclaims that have taken too long, and whose leases have ended by now. Goes on
    /// with the others.
    pub(super) fn check_reclaims(&mut self) {
        let timeout = self.options.times.time_to_live.min(RECLAIM_TIMEOUT);
        let is_late = |reclaim: &Reclaim| reclaim.since.elapsed() >= timeout;
        while let Some(nth) = self.reclaims.iter().position(is_late) {
            let late = self.reclaims.swap_remove(nth);
            let tickets = vec![None; late.claims.len()];
            self.note_lost(late.serial, &late.claims, &tickets);
            let _ = late.answer.send(tickets);
        }
        // The watch may have told meanwhile what the other reclaims wait for.
        self.advance_reclaims();
        self.look_for_adopted();
    }

    /// Notes which of these claims are not answered with a lock. If only the owner of its name knew such a
    /// lock, then only the owner key keeps others away, and the client learns only now that the lock is
    /// lost. So the owner key stays until the end of its lease.
    fn note_lost(&mut self, serial: AgentSerial, claims: &[Claim], tickets: &[Option<Ticket>]) {
        let bucket = self.leases.agents.get(&serial).map(|agent| agent.bucket);
        let Some(opened) = bucket.and_then(|bucket| self.buckets.get(&bucket)) else { return };
        let lost = claims.iter().zip(tickets).filter(|(claim, ticket)| {
            ticket.is_none() && claim.token.is_some_and(tokens::is_counted)
        });
        let begins = lost
            .map(|(claim, _)| opened.bucket.keys.name(&NameKey::new(&claim.name)).all_owned().0);
        self.spared.extend(begins);
    }

    /// The prefixes of the owner keys that stay until the end of their lease.
    pub(crate) fn spared(&self) -> &HashSet<Vec<u8>> {
        &self.spared
    }

    /// Writes claimed locks that only the owner of their names knew. The connection of this owner
    /// has ended. From then on, these locks are like any other. `None` while the transaction is on
    /// its way.
    fn adopt(&mut self, reclaim: Reclaim) -> Option<Reclaim> {
        if reclaim.is_settled {
            return Some(reclaim);
        }
        let agent = self.leases.agents.get(&reclaim.serial)?;
        let opened = self.buckets.get(&agent.bucket)?;
        let mut steps = Vec::new();
        for (claim, name) in reclaim.claims.iter().zip(&reclaim.names) {
            let Some(token) = claim.token.filter(|token| tokens::is_counted(*token)) else {
                continue;
            };
            let Some(mirror) = opened.bucket.mirror(name) else { continue };
            let is_it = |owned: &&Entry| {
                owned.made == tokens::revision(token) && owned.request.owner != self.slots.me()
            };
            let Some(owned) = mirror.owner().filter(is_it) else { continue };
            let slot = ADOPTED | token.get();
            let (mode, request) = (claim.kind.mode(), RequestKey { slot, ..owned.request });
            // An earlier try may have written it already.
            if mirror.get(Phase::Held, request).is_some() || steps.len() == MOST / 2 {
                continue;
            }
            // If two claimed locks exclude each other, the older one was stolen, and its holder has
            // not heard of the theft.
            let is_robbed = reclaim.claims.iter().zip(&reclaim.names).any(|(other, of)| {
                let excludes = (mode, other.kind.mode()) != (Mode::Shared, Mode::Shared);
                let is_later = other
                    .token
                    .is_some_and(|other| other > token && tokens::revision(other) == owned.made);
                of == name && excludes && is_later
            });
            let is_taken = mode == Mode::Exclusive && mirror.is_held();
            if is_robbed || is_taken {
                continue;
            }
            let value = Value {
                client_id: agent.client_id,
                since: wall_millis(),
                serial: claim.serial,
                place: 0,
                mark: token.get(),
                info: agent.info.clone(),
                said: RequestNotes::default(),
                name: name.is_hash().then(|| claim.name.clone()),
            };
            let keys = opened.bucket.keys.name(name);
            let key = keys.request(Phase::Held, mode, request);
            let owns = keys.owned(request.owner);
            let mut when = vec![Check::MadeIn(owns.clone(), owned.made)];
            let mut then = vec![Step::Put { key, value: value.encode(), lease: owned.lease }];
            if mode == Mode::Exclusive {
                // Other clients may claim locks that were stolen from them already.
                let others = others(&keys, &owns).map(|(start, end)| Check::Empty(start, end));
                when.extend(others);
                then.push(Step::Delete(owns));
            }
            steps.push(Step::Within(Transaction { when, then, or_else: Vec::new() }));
        }
        if steps.is_empty() {
            return Some(reclaim);
        }
        let of = self.next_adoption;
        self.next_adoption += 1;
        self.adoptions.insert(of, reclaim);
        let transaction = Transaction { then: steps, ..Transaction::default() };
        self.calls.push_back(Call::Adopt { of, transaction });
        None
    }

    /// To be called when the transaction that writes claimed locks is done, or has failed.
    pub(super) fn adopted(&mut self, of: u64, result: Result<Answer, Failure>) {
        let Some(mut reclaim) = self.adoptions.remove(&of) else { return };
        match result {
            Ok(answer) => {
                let is_done = |result: &StepResult| matches!(result, StepResult::Within(inner) if inner.succeeded);
                // If no lock could be written, another try would fail again, as long as nothing
                // else has changed.
                reclaim.is_settled = !answer.results.iter().any(is_done);
                reclaim.after = answer.revision;
            }
            // The reclaim is tried again in a moment, as long as that is of use.
            Err(Failure::Unknown(_)) => return self.reclaims.push(reclaim),
            Err(_) => reclaim.is_settled = true,
        }
        let bucket = self.leases.agents.get(&reclaim.serial).map(|agent| agent.bucket);
        let names = reclaim.names.clone();
        self.reclaims.push(reclaim);
        if let Some(bucket) = bucket {
            for name in names {
                self.look(bucket, &name, Duration::ZERO);
            }
        }
        self.check_reclaims();
    }

    fn reclaim_now(&mut self, reclaim: Reclaim) {
        let Some(reclaim) = self.adopt(reclaim) else { return };
        let Reclaim { serial, claims, answer, .. } = reclaim;
        let mut tickets = vec![None; claims.len()];
        let Some(agent) = self.leases.agents.get(&serial) else { return };
        let (id, bucket, client_id) = (agent.id, agent.bucket, agent.client_id);
        let Some(opened) = self.buckets.get_mut(&bucket) else { return };
        let is_its = |entry: &Entry| {
            let value = Value::decode(&entry.value);
            value.is_some_and(|value| value.client_id == client_id)
                && self.slots.owner(entry.request, entry.made) == Owner::Others
        };
        let (found, lease) = find(&opened.bucket, is_its, &claims);

        if let Some(agent) = self.leases.agents.get_mut(&serial) {
            agent.is_reclaimed = true;
        }
        let mut adopted = Vec::new();
        let kept: HashSet<RequestKey> =
            found.iter().filter(|of| of.claim.is_some()).map(|of| of.entry.request).collect();
        for Found { name, phase, entry, claim } in found {
            let claimed = claim.and_then(|nth| {
                let (name, kind) = (claims[nth].name.clone(), claims[nth].kind);
                let mut table = self.shared.table();
                let is_lock = claims[nth].token.is_some();
                let known_as = (claims[nth].serial, entry.request);
                Some((nth, table.reclaim(serial, id, name, kind, known_as, is_lock)?))
            });
            if let Some((nth, request)) = claimed {
                self.slots.adopt(entry.request, request);
                adopted.push((name, request, entry.ended()));
                tickets[nth] = Some(Ticket { lane: 0, id: request });
            } else if phase == Phase::Held && self.leases.is_expiring(entry.lease) {
                // The lock is lost. Its key is removed when the work under it has ended.
            } else {
                // A request that is kept may have another key, put by an earlier try that came
                // late.
                let only = kept.contains(&entry.request).then_some(phase);
                opened.bucket.push(name, Todo::Remove(Ended { only, ..entry.ended() }, None));
            }
        }
        self.note_lost(serial, &claims, &tickets);
        let is_wanted = answer.send(tickets).is_ok();
        if let Some(lease) = lease.filter(|_| is_wanted) {
            self.take_over(serial, lease);
        } else if let Some(opened) = self.buckets.get_mut(&bucket) {
            let mut table = self.shared.table();
            for (name, request, ended) in adopted {
                // The waker is a no-op.
                drop(table.finish(request));
                self.slots.retire(ended.request, request);
                opened.bucket.push(name, Todo::Remove(ended, None));
            }
        }
        self.step_waiting(bucket);
    }

    /// To be called when this connection renews an agent's lease from now on, which was another
    /// connection's.
    pub(super) fn revive(&mut self, serial: AgentSerial, renewal: Renewal) {
        let Some(agent) = self.leases.agents.get(&serial) else { return };
        let (id, bucket) = (agent.id, agent.bucket);
        let Some(opened) = self.buckets.get(&bucket) else { return };
        let mut wakers = Vec::new();
        let mut table = self.shared.table();
        table.revive(serial, id, self.options.times.term(renewal));
        // Requests that were granted meanwhile could not be answered before this.
        for (request, name, key) in table.pending_of(id) {
            match opened.bucket.has(&name, key) {
                (Some(lock), _) => {
                    wakers.extend(table.answer(request, State::Held(lock.grant(), Vec::new())));
                }
                (None, Some(waits)) => table.queued(request, waits.made),
                // The key was there when the request was reclaimed, so it has gone since.
                (None, None) => {
                    let how = opened.bucket.mirror(&name).map(|of| of.why_gone(token(0)));
                    let how = how.unwrap_or(Lost::Removed);
                    wakers.extend(table.answer(request, State::Lost(how)));
                }
            }
        }
        drop(table);
        wake(wakers);
    }
}

/// The locks and requests of an agent, in the order of the requests, and the lease of those that answer claims. Each
/// has the claim that it answers: the one with its number. A claimed lock must also have its token. For a claimed
/// request, there may also be a lock of whose grant the agent has not heard.
fn find(
    bucket: &Bucket,
    is_its: impl Fn(&Entry) -> bool,
    claims: &[Claim],
) -> (Vec<Found>, Option<i64>) {
    let by_serial: HashMap<u64, usize> =
        claims.iter().enumerate().map(|(nth, claim)| (claim.serial, nth)).collect();
    let entries = bucket.entries().filter(|(_, _, entry)| is_its(entry));
    let found = entries.map(|(name, phase, entry)| {
        let serial = Value::decode(&entry.value).map(|value| value.serial);
        let nth = serial.and_then(|serial| by_serial.get(&serial).copied());
        let answers = |nth: &usize| {
            let Claim { name: claimed, kind, token, .. } = &claims[*nth];
            let is_held = phase == Phase::Held;
            let is_it = match token {
                Some(token) => is_held && entry.grant().token == *token,
                None => is_held || kind.waits(),
            };
            is_it && *name == NameKey::new(claimed) && entry.mode == kind.mode()
        };
        Found { name: name.clone(), phase, entry: entry.clone(), claim: nth.filter(answers) }
    });
    let mut found: Vec<Found> = found.collect();
    // An agent has all its locks under one lease. Keys under an earlier lease were lost before.
    let claimed = found.iter().filter(|found| found.claim.is_some());
    let lease = claimed.max_by_key(|found| found.entry.made).map(|found| found.entry.lease);
    found.retain(|found| Some(found.entry.lease) == lease || found.claim.is_none());
    // Held locks come first, because they were requested before the waiting requests. If a request is held and
    // also stands in the queue, an earlier try that came late has put it into the queue.
    found.sort_by_key(|found| {
        let Entry { made, request, ref value, .. } = found.entry;
        (found.phase == Phase::Queued, made, Value::place(value), request)
    });
    let mut answered = HashSet::new();
    for found in &mut found {
        found.claim = found.claim.filter(|nth| answered.insert(*nth));
    }
    (found, lease)
}
