//! Queries. A snapshot is one list of a range, so it shows one revision.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use navlock_core::{Error, Unreachable, UnreachableKind};
use navlock_engine::RequestId;
use tokio::sync::oneshot;

use super::{
    Call, Keeper, Listed,
    giving_up::entry_of,
    lease_states::OwnLease,
    ownership::{AGAIN, QUERY_TIMEOUT},
    pending_query::{OwnPart, Query},
};
use crate::{
    clock::Uptime,
    data::{KeyValue, Listing, Step, Transaction, prefix_end},
    failure::Failure,
    hash::HashState,
    keys::{BucketKeys, LockKey, NameKey, Phase, RequestKey},
    query::{Asks, OwnerAnswer, QueryResult, seen},
    transactions::{AskPurpose, LeavingEntry, MOST, ask_owner},
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
        asks: Asks,
        answer: oneshot::Sender<Result<QueryResult, Error>>,
    ) {
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
            own: None,
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
            let (known, at, delay) = match &query.own {
                Some(own) => (own.known, own.revision, Duration::ZERO),
                None if query.asks_owners => (self.history.known(), 0, again),
                None => (self.history.known(), 0, Duration::ZERO),
            };
            let most = query.most;
            self.calls.push_back(Call::List { of, known, prefix, most, at, delay });
        }
    }

    /// Asks again for all queries, because etcd has begun anew since they were asked.
    pub(super) fn ask_queries_again(&mut self) {
        for query in self.queries.values_mut() {
            (query.is_asking, query.own) = (false, None);
        }
        self.advance_queries();
    }

    pub(super) fn queried(&mut self, number: u64, result: Result<Listing, Failure>) {
        let Some(query) = self.queries.get_mut(&number) else { return };
        query.is_asking = false;
        let (bucket, name, own) = (query.bucket, query.name.clone(), query.own.take());
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
        let own = own.unwrap_or_else(|| self.own_part(number));
        let is_shown = self.is_shown(number, &listed, &own);
        let Some(opened) = self.buckets.get(&bucket) else { return };
        let Some(query) = self.queries.get_mut(&number) else { return };
        query.rounds += 1;
        if !is_settled && query.rounds < ROUNDS || !is_shown {
            query.after = opened.bucket.last();
            return self.advance_queries();
        }
        if own.revision != listed.revision && !own.names.is_empty() {
            query.own = Some(own);
            return self.advance_queries();
        }
        let me = self.slots.me();
        let (asks, most) = (query.asks, query.most);
        let shown = |kv: &KeyValue, key: &LockKey| {
            if key.request.owner != me {
                let is_asked = asks == Asks::Owners;
                return if is_asked { OwnerAnswer::Unsaid } else { OwnerAnswer::Unasked };
            }
            // The work under a lost lease may still go on, although its locks are not known any more.
            if asks >= Asks::Ourselves && !own.has(kv, key) || self.expiring.contains_key(&kv.lease)
            {
                OwnerAnswer::Unsaid
            } else {
                OwnerAnswer::Said
            }
        };
        let (mut found, mut left_out) = (listed.found, listed.left_out);
        let keys = &opened.bucket.keys;
        let ours = found.iter().filter_map(|kv| owner_key(keys, kv).filter(|key| own.has(kv, key)));
        let ours = ours.filter_map(|key| own.names.get(&key.name)).flat_map(|(_, all)| all);
        let ours: Vec<_> = ours.cloned().collect();
        if !ours.is_empty() {
            let is_live = |key: LockKey| {
                let LockKey { phase, request, .. } = key;
                phase == Phase::Owned || request.owner != me || own.live.contains(&request)
            };
            // Others still see what stands under a lost lease, because its work may go on.
            found.retain(|kv| {
                self.expiring.contains_key(&kv.lease) || keys.parse(&kv.key).is_none_or(is_live)
            });
            left_out += ours.len().saturating_sub(most) as u64;
            found.extend(ours.into_iter().take(most));
        }
        let mut seen = seen(keys, &found, shown);
        // The lease of our own keys is not needed.
        for one in seen.held.iter_mut().chain(&mut seen.pending).chain(&mut seen.owned) {
            one.lease =
                Some(one.lease).filter(|lease| !self.leases.contains_key(lease)).unwrap_or(0);
        }
        seen.left_out = left_out;
        if let Some(query) = self.queries.remove(&number) {
            let _ = query.answer.send(Ok(seen));
        }
    }

    /// What only this connection knows now of the names that a query asks about.
    fn own_part(&self, number: u64) -> OwnPart {
        let (known, revision) = (self.history.known(), self.history.revision());
        let (names, live) = (HashMap::default(), HashSet::default());
        let mut own = OwnPart { known, revision, names, live };
        let query = self.queries.get(&number).filter(|query| query.asks >= Asks::Ourselves);
        let Some(query) = query else { return own };
        let Some(opened) = self.buckets.get(&query.bucket) else { return own };
        let OwnLease::There(lease) = self.own else { return own };
        // No request has such a slot.
        let key =
            |id: RequestId| RequestKey { owner: self.slots.me(), slot: u64::MAX - id.serial() };
        let views = &opened.bucket.views;
        let asked = query.name.as_ref();
        let one = asked.and_then(|name| views.get_key_value(name));
        let all = views.iter().filter(|_| asked.is_none());
        let owned = one.into_iter().chain(all).filter_map(|(name, view)| match view.own {
            Ownership::Since(made) => Some((name.clone(), made)),
            _ => None,
        });
        let owned: Vec<_> = owned.collect();
        if owned.is_empty() {
            return own;
        }
        let table = self.shared.table();
        own.live.extend(table.live(query.bucket));
        let here = owned.into_iter().map(|(name, made)| {
            let of = (query.bucket, name);
            let here = table.here(&of, key);
            (of.1, made, here)
        });
        let here: Vec<_> = here.collect();
        // Whoever locks waits for the table. So the entries are encoded without it.
        drop(table);
        for (name, made, here) in here {
            let keys = opened.bucket.keys.name(&name);
            let entries = here.into_iter().enumerate().filter_map(|(nth, leaver)| {
                let agent = self.agents.get(&leaver.agent)?;
                let LeavingEntry { phase, ask } = entry_of(agent, (nth, leaver), made, lease);
                let key = keys.request(phase, ask.mode, ask.request);
                Some(KeyValue { key, value: ask.value, made, written: made, lease })
            });
            own.names.insert(name, (made, entries.collect()));
        }
        own
    }

    /// Whether a list shows everything, as far as possible, together with what only this connection knows. If
    /// not, other owners of names are asked to show what only they know.
    fn is_shown(&mut self, number: u64, listed: &Listing, own: &OwnPart) -> bool {
        let query = self.queries.get(&number).filter(|query| query.asks >= Asks::Ourselves);
        let Some(query) = query else { return true };
        let Some(opened) = self.buckets.get(&query.bucket) else { return true };
        let me = self.slots.me();
        let (mut is_ours_known, mut theirs) = (true, Vec::new());
        for kv in &listed.found {
            let Some(key) = owner_key(&opened.bucket.keys, kv) else { continue };
            // A name that was lost with its lease cannot be shown: its key goes with the lease.
            if self.expiring.contains_key(&kv.lease) {
                continue;
            }
            if key.request.owner == me {
                // We may not know yet that we own the name, or are just giving it up.
                is_ours_known &= own.has(kv, &key);
            } else if query.asks == Asks::Owners {
                theirs.push(kv);
            }
        }
        let is_late = query.shown_by <= Uptime::now();
        let timeout = self.owner_timeout();
        theirs.retain(|kv| !is_late && self.note_asked(kv).seen.elapsed() < timeout);
        if !theirs.is_empty() {
            let asked = theirs.iter().filter(|kv| AskPurpose::ToSee.says_more(kv));
            let steps: Vec<_> =
                asked.map(|kv| Step::Within(ask_owner(kv, AskPurpose::ToSee))).collect();
            for some in steps.chunks(MOST) {
                let transaction = Transaction { then: some.to_vec(), ..Transaction::default() };
                self.calls.push_back(Call::Write { transaction });
            }
        }
        let is_shown = is_late || is_ours_known && theirs.is_empty();
        if let Some(query) = self.queries.get_mut(&number) {
            query.asks_owners |= !is_shown;
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

/// The parts of this key, if it is the owner key of a name.
fn owner_key(keys: &BucketKeys, kv: &KeyValue) -> Option<LockKey> {
    // Most keys belong to locks and requests, and are not taken apart here.
    let may_be = Some(&kv.key).filter(|key| BucketKeys::may_say_whose(key));
    may_be.and_then(|key| keys.parse(key)).filter(|key| key.phase == Phase::Owned)
}
