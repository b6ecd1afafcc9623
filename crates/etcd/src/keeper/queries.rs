//! Queries. A snapshot is one list of a range, so it shows one revision.

use std::{collections::HashMap, time::Duration};

use navlock_core::{Error, Unreachable, UnreachableKind};
use tokio::sync::oneshot;

use super::{
    Call, Keeper, Listed,
    ownership::{AGAIN, QUERY_TIMEOUT},
    pending_query::Query,
};
use crate::{
    clock::Uptime,
    data::{KeyValue, Listing, Step, Transaction, prefix_end},
    failure::Failure,
    hash::HashState,
    keys::{BucketKeys, LockKey, NameKey, Phase},
    query::{OwnerAnswer, QueryResult, seen},
    table::{GrantState, Usage},
    transactions::{AskPurpose, MOST, ask_owner},
    view::Ownership,
};

/// How often a snapshot is taken again because requests of ours were just being granted.
const ROUNDS: u32 = 5;

impl Keeper {
    pub(super) fn query(
        &mut self,
        bucket: u64,
        name: Option<NameKey>,
        most: usize,
        asks: bool,
        answer: oneshot::Sender<Result<QueryResult, Error>>,
    ) {
        let idle = if asks { self.show_owned(bucket, name.as_ref()) } else { HashMap::default() };
        let Some(opened) = self.buckets.get(&bucket) else { return };
        let after = opened.bucket.last();
        let (now, timeout) = (Uptime::now(), self.options.time_to_live.min(QUERY_TIMEOUT));
        let (shown_by, deadline) = (now.after(timeout / 2), now.after(timeout));
        let query = Query {
            bucket,
            name,
            most,
            asks,
            after,
            rounds: 0,
            is_asking: false,
            idle,
            asks_owners: false,
            shown_by,
            deadline,
            answer,
        };
        self.queries.insert(self.next_query, query);
        self.next_query += 1;
        self.advance_queries();
    }

    /// Asks etcd for the queries that can be answered now.
    pub(super) fn advance_queries(&mut self) {
        if self.queries.is_empty() {
            return;
        }
        for (&number, query) in &mut self.queries {
            let Some(opened) = self.buckets.get(&query.bucket) else { continue };
            if query.is_asking || !opened.bucket.is_done(query.after) {
                continue;
            }
            query.is_asking = true;
            let keys = &opened.bucket.keys;
            let all = |name| keys.name(name).all();
            let prefix = query.name.as_ref().map_or_else(|| keys.all(), all);
            let of = Listed::Query(number);
            // The pauses grow, because the owner may not answer.
            let again = AGAIN * (1 << query.rounds.min(5));
            let delay = if query.asks_owners { again } else { Duration::ZERO };
            let (known, most) = (self.history.known(), query.most);
            self.calls.push_back(Call::List { of, known, prefix, most, delay });
        }
    }

    /// Asks again for all queries, because etcd has begun anew since they were asked.
    pub(super) fn ask_queries_again(&mut self) {
        self.queries.values_mut().for_each(|query| query.is_asking = false);
        self.advance_queries();
    }

    pub(super) fn queried(&mut self, number: u64, result: Result<Listing, Failure>) {
        let Some(query) = self.queries.get_mut(&number) else { return };
        query.is_asking = false;
        let (bucket, name) = (query.bucket, query.name.clone());
        let listed = match result {
            Ok(listed) => listed,
            // The next tick asks again, until the query's deadline.
            Err(Failure::Unknown(_)) => return,
            Err(failure) => {
                if let Some(query) = self.queries.remove(&number) {
                    let _ = query.answer.send(Err(failure.error()));
                }
                return;
            }
        };
        self.note_queued(bucket, name.as_ref(), &listed);
        let Some(opened) = self.buckets.get(&bucket) else { return };
        // Requests of ours that are just being granted belong before the query. If there are any, the list is
        // taken again.
        let is_settled =
            self.waiting(&opened.bucket).iter().all(|name| opened.bucket.is_idle(name));
        let is_shown = self.is_shown(number, &listed);
        let Some(opened) = self.buckets.get(&bucket) else { return };
        let Some(query) = self.queries.get_mut(&number) else { return };
        query.rounds += 1;
        if !is_settled && query.rounds < ROUNDS || !is_shown {
            query.after = opened.bucket.last();
            return self.advance_queries();
        }
        let me = self.slots.me();
        let (asks, is_late) = (query.asks, query.shown_by <= Uptime::now());
        let shown = |kv: &KeyValue, key: &LockKey| {
            if key.request.owner != me {
                return if asks { OwnerAnswer::Unsaid } else { OwnerAnswer::Unasked };
            }
            let usage = self.shared.table().usage(&(bucket, key.name.clone()));
            // Locks that could not be written are not in etcd. The work under a lost lease may still go
            // on, although its locks are not known any more.
            let is_unsaid = |usage: Usage| {
                usage.is_used && (usage.gate == GrantState::Stuck || is_late) && asks
            };
            if usage.is_some_and(is_unsaid) || self.expiring.contains_key(&kv.lease) {
                OwnerAnswer::Unsaid
            } else {
                OwnerAnswer::Said
            }
        };
        let mut seen = seen(&opened.bucket.keys, &listed.found, shown);
        // The lease of our own keys is not needed.
        for one in seen.held.iter_mut().chain(&mut seen.pending).chain(&mut seen.owned) {
            one.lease =
                Some(one.lease).filter(|lease| !self.leases.contains_key(lease)).unwrap_or(0);
        }
        seen.left_out = listed.left_out;
        if let Some(query) = self.queries.remove(&number) {
            let _ = query.answer.send(Ok(seen));
        }
    }

    /// Makes visible in etcd who holds the names that we own, and who waits for them. For the names
    /// that nobody uses, returns how often they were granted.
    fn show_owned(
        &mut self,
        bucket: u64,
        of: Option<&NameKey>,
    ) -> HashMap<NameKey, u64, HashState> {
        let mut idle = HashMap::default();
        let Some(opened) = self.buckets.get(&bucket) else { return idle };
        let is_asked = |name: &&NameKey| of.is_none_or(|of| of == *name);
        let owned = opened.bucket.views.iter().filter(|(_, view)| view.own != Ownership::No);
        let owned: Vec<_> = owned.map(|(name, _)| name).filter(is_asked).cloned().collect();
        for name in owned {
            let of = (bucket, name);
            let usage = self.shared.table().usage(&of);
            match usage {
                Some(usage) if usage.gate == GrantState::Stuck => {}
                Some(usage) if usage.is_used => {
                    self.note_shown(bucket, &of.1);
                    self.leave(bucket, &of.1);
                }
                Some(usage) => drop(idle.insert(of.1, usage.granted)),
                None => {}
            }
        }
        idle
    }

    /// Whether a list shows everything, as far as possible. If not, owners of names are asked to show
    /// what only they know, and names that we own are given up if the list did not show their locks and
    /// requests.
    fn is_shown(&mut self, number: u64, listed: &Listing) -> bool {
        let Some(query) = self.queries.get(&number).filter(|query| query.asks) else { return true };
        let Some(opened) = self.buckets.get(&query.bucket) else { return true };
        let (bucket, me) = (query.bucket, self.slots.me());
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for kv in &listed.found {
            // Most keys belong to locks and requests, and their values need not be read here.
            let may_be = Some(&kv.key).filter(|key| BucketKeys::may_say_whose(key));
            let Some(key) = may_be.and_then(|key| opened.bucket.keys.parse(key)) else { continue };
            // A name that was lost with its lease cannot be given up: its key goes with the lease.
            if key.phase != Phase::Owned || self.expiring.contains_key(&kv.lease) {
                continue;
            }
            if key.request.owner != me {
                theirs.push(kv);
                continue;
            }
            let known = query.idle.get(&key.name).copied();
            let usage = self.shared.table().usage(&(bucket, key.name.clone()));
            // If we own the name only since the list, and nobody uses it, nobody has held it since.
            let is_idle = |usage: Usage| {
                usage.gate == GrantState::Stuck
                    || !usage.is_used && known.unwrap_or_default() == usage.granted
            };
            if !usage.is_some_and(is_idle) {
                ours.push((key.name, kv));
            }
        }
        let is_late = query.shown_by <= Uptime::now();
        let timeout = self.owner_timeout();
        theirs.retain(|kv| !is_late && self.note_asked(kv).elapsed() < timeout);
        if !theirs.is_empty() && !is_late {
            let asked = theirs.iter().filter(|kv| AskPurpose::ToSee.says_more(kv));
            let steps: Vec<_> =
                asked.map(|kv| Step::Within(ask_owner(kv, AskPurpose::ToSee))).collect();
            for some in steps.chunks(MOST) {
                let transaction = Transaction { then: some.to_vec(), ..Transaction::default() };
                self.calls.push_back(Call::Write { transaction });
            }
        }
        let is_shown = is_late || ours.is_empty() && theirs.is_empty();
        if let Some(query) = self.queries.get_mut(&number) {
            query.asks_owners |= !is_shown;
        }
        for (name, owned) in ours.into_iter().filter(|_| !is_shown) {
            self.show(bucket, &name, owned);
        }
        is_shown
    }

    /// Takes in what a snapshot, of one name or of all, tells of names for which requests of ours
    /// wait. So the requests that can be granted are granted before the query is answered.
    fn note_queued(&mut self, bucket: u64, of: Option<&NameKey>, listed: &Listing) {
        let Some(opened) = self.buckets.get(&bucket) else { return };
        // A name may have keys even if the list leaves it out.
        let is_told = |name: &NameKey| {
            let prefix = opened.bucket.keys.name(name).all();
            let last = listed.found.last().map(|kv| &kv.key);
            let is_whole = listed.left_out == 0;
            of.is_none_or(|of| of == name)
                && (is_whole || last.is_some_and(|last| *last >= prefix_end(&prefix)))
        };
        let mut waiting: HashMap<NameKey, Vec<KeyValue>, HashState> = HashMap::default();
        // The mirrors are not asked, because they may be behind.
        let table = self.shared.table();
        for name in opened.bucket.views.keys() {
            if table.waits_for(bucket, name) && is_told(name) {
                waiting.insert(name.clone(), Vec::new());
            }
        }
        drop(table);
        if waiting.is_empty() {
            return;
        }
        for kv in &listed.found {
            let key = opened.bucket.keys.parse(&kv.key);
            if let Some(of) = key.and_then(|key| waiting.get_mut(&key.name)) {
                of.push(kv.clone());
            }
        }
        for (name, found) in waiting {
            self.take_list(bucket, &name, &found, listed.revision);
        }
    }

    /// Fails the queries that have waited too long, and asks again for the others.
    pub(super) fn check_queries(&mut self) {
        let now = Uptime::now();
        let late: Vec<u64> = self
            .queries
            .iter()
            .filter(|(_, query)| query.deadline <= now || query.answer.is_closed())
            .map(|(&number, _)| number)
            .collect();
        for number in late {
            if let Some(query) = self.queries.remove(&number) {
                let why = "cannot reach etcd: what there is could not be listed in time";
                let why = Unreachable::new(UnreachableKind::TimedOut, why);
                let _ = query.answer.send(Err(why.into()));
            }
        }
        self.advance_queries();
    }
}
