//! Queries. A snapshot is one list of a range, so it shows one revision.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use navlock_core::{Error, Unreachable, UnreachableKind};
use tokio::sync::oneshot;

use super::{
    Call, Keeper, Listed,
    owner_part::OwnerPart,
    ownership::{AGAIN, QUERY_TIMEOUT},
    pending_query::Query,
};
use crate::{
    call_failure::Failure,
    clock::Uptime,
    data::{KeyValue, Listing, Step, Transaction, prefix_end},
    hash::HashState,
    keys::{BucketKeys, LockKey, NameKey, Phase},
    listed::{OwnerAnswer, seen},
    query::{Asks, QueryResult},
    transactions::{AskPurpose, MOST, ask_owner},
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
        let (now, timeout) = (Uptime::now(), self.options.times.time_to_live.min(QUERY_TIMEOUT));
        let (shown_by, deadline) = (now.after(timeout / 2), now.after(timeout));
        let query = Query {
            bucket,
            name,
            most,
            asks,
            after,
            rounds: 0,
            is_asking: false,
            since: i64::MAX,
            cut: None,
            asks_owners: false,
            shown_by,
            deadline,
            answer,
        };
        self.queries.insert(self.next_query, query);
        self.next_query += 1;
        self.advance_queries();
    }

    /// Asks the store for the queries that can be answered now.
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
            let (known, at, delay) = match &query.cut {
                Some((at, _)) => (self.history.known_at(*at), *at, Duration::ZERO),
                None if query.asks_owners => (self.history.known(), 0, again),
                None => (self.history.known(), 0, Duration::ZERO),
            };
            let most = query.most;
            self.calls.push_back(Call::List { of, known, prefix, most, at, delay });
        }
    }

    /// Asks again for all queries, because the store has begun anew since they were asked.
    pub(super) fn ask_queries_again(&mut self) {
        for query in self.queries.values_mut() {
            (query.is_asking, query.since, query.cut) = (false, i64::MAX, None);
        }
        self.advance_queries();
    }

    pub(super) fn queried(&mut self, number: u64, result: Result<Listing, Failure>) {
        let Some(query) = self.queries.get_mut(&number) else { return };
        query.is_asking = false;
        let (bucket, name, cut) = (query.bucket, query.name.clone(), query.cut.take());
        let listed = match result {
            Ok(listed) => listed,
            // The next tick asks again, until the query's deadline. The store may have forgotten the revision.
            Err(Failure::Unknown(_)) => return query.since = i64::MAX,
            Err(failure) => {
                if let Some(query) = self.queries.remove(&number) {
                    let _ = query.answer.send(Err(failure.error(self.store)));
                }
                return;
            }
        };
        query.since = query.since.min(listed.revision);
        if cut.is_none() {
            self.note_queued(bucket, name.as_ref(), &listed);
        }
        let Some(opened) = self.buckets.get(&bucket) else { return };
        // Requests of ours that are just being granted belong before the query. If there are any, the list is
        // taken again.
        let is_settled =
            self.waiting(&opened.bucket).iter().all(|name| opened.bucket.is_idle(name));
        let is_cut = cut.is_some();
        let parts = cut.map_or_else(|| self.parts(number, &listed), |(_, parts)| parts);
        let of_some = parts.iter().filter(|part| !part.names.is_empty());
        let at = of_some.map(|part| part.revision).max().unwrap_or(listed.revision);
        // The list is shown if nothing is missing in it.
        let is_final = is_cut || at == listed.revision;
        let is_shown = self.is_shown(number, &listed, &parts, (is_cut, is_final));
        let Some(opened) = self.buckets.get(&bucket) else { return };
        let Some(query) = self.queries.get_mut(&number) else { return };
        query.rounds += 1;
        if !is_settled && query.rounds < ROUNDS || !is_shown {
            query.after = opened.bucket.last();
            // An owner may have said nothing of a name that was becoming its own. It is asked again.
            query.since = if is_cut && !is_shown { i64::MAX } else { query.since };
            return self.advance_queries();
        }
        if !is_final {
            query.cut = Some((at, parts));
            return self.advance_queries();
        }
        let me = self.slots.me();
        let (asks, most) = (query.asks, query.most);
        let has = |kv: &KeyValue, key: &LockKey| parts.iter().find(|part| part.has(kv, key));
        let shown = |kv: &KeyValue, key: &LockKey| match key.request.owner == me {
            // The work under a lost lease may still go on, although its locks are not known any more.
            true if self.leases.is_expiring(kv.lease) => OwnerAnswer::Unsaid,
            true if asks == Asks::Nobody => OwnerAnswer::Said,
            false if asks != Asks::Owners => OwnerAnswer::Unasked,
            _ => has(kv, key).map_or(OwnerAnswer::Unsaid, |_| OwnerAnswer::Said),
        };
        let (mut found, mut left_out) = (listed.found, listed.left_out);
        let keys = &opened.bucket.keys;
        let owned = found.iter().filter_map(|kv| owner_key(keys, kv).map(|key| (kv, key)));
        let owned: Vec<_> = owned.collect();
        let said = owned.iter().filter_map(|(kv, key)| Some(has(kv, key)?.entries(keys, key)));
        let said: Vec<_> = said.flatten().collect();
        let owned: HashSet<_, HashState> =
            owned.into_iter().map(|(kv, key)| (key.name, kv.made)).collect();
        if parts.iter().any(|part| !part.names.is_empty()) {
            found.retain(|kv| {
                let Some(key) = keys.parse(&kv.key) else { return true };
                let live = || parts.iter().find_map(|part| part.is_live(kv, &key));
                parts.iter().any(|part| part.has_left(&key, &owned)) || live().unwrap_or(true)
            });
            left_out += said.len().saturating_sub(most) as u64;
            found.extend(said.into_iter().take(most));
        }
        let mut seen = seen(keys, &found, shown);
        // The lease of our own keys is not needed.
        for one in seen.held.iter_mut().chain(&mut seen.pending).chain(&mut seen.owned) {
            one.lease =
                Some(one.lease).filter(|lease| self.leases.get(*lease).is_none()).unwrap_or(0);
        }
        seen.left_out = left_out;
        if let Some(query) = self.queries.remove(&number) {
            let _ = query.answer.send(Ok(seen));
        }
    }

    /// What only owners know of the names that a query asks about: this connection now, and others as far as
    /// they have said so in this list because it was asked since the query was made. What was said last comes first.
    fn parts(&self, number: u64, listed: &Listing) -> Vec<OwnerPart> {
        let query = self.queries.get(&number).filter(|query| query.asks >= Asks::Ourselves);
        let Some(query) = query else { return Vec::new() };
        let owned = self.owned_names(query.bucket, query.name.as_ref());
        let mut parts = vec![self.own_part(query.bucket, owned, 0, usize::MAX)];
        if query.asks == Asks::Owners {
            let keys = self.buckets.get(&query.bucket).map(|opened| &opened.bucket.keys);
            let owner_of = |kv| Some((kv, owner_key(keys?, kv)?));
            let owned = listed.found.iter().filter_map(owner_of);
            let said = owned.filter_map(|(kv, key)| OwnerPart::of(kv, &key));
            parts.extend(said.filter(|part| part.asked > query.since));
            parts.sort_by_key(|part| Reverse(part.asked));
        }
        parts
    }

    /// Whether a list shows everything, as far as possible, together with what only owners know. If not, the
    /// owners are asked that have not said what they know, each by the first name of which it has not.
    ///
    /// Nobody asks where somebody has asked already and was not answered. An answer may have been made before
    /// this query, if the question was: then the owner is asked again once it has answered.
    fn is_shown(
        &mut self,
        number: u64,
        listed: &Listing,
        parts: &[OwnerPart],
        (is_cut, is_final): (bool, bool),
    ) -> bool {
        let query = self.queries.get(&number).filter(|query| query.asks >= Asks::Ourselves);
        let Some(query) = query else { return true };
        let Some(opened) = self.buckets.get(&query.bucket) else { return true };
        let me = self.slots.me();
        let (mut is_ours_known, mut theirs) = (true, BTreeMap::new());
        let purpose = query.name.as_ref().map_or(AskPurpose::ToSeeAll, |_| AskPurpose::ToSee);
        for kv in &listed.found {
            let Some(key) = owner_key(&opened.bucket.keys, kv) else { continue };
            // A name that was lost with its lease cannot be shown: its key goes with the lease.
            let is_lost = self.leases.is_expiring(kv.lease);
            if is_lost || parts.iter().any(|part| part.has(kv, &key)) {
                continue;
            }
            // We may not know yet that we own the name, or are just giving it up.
            is_ours_known &= key.request.owner != me;
            let is_said = !is_final && parts.iter().any(|part| part.is_all_of(&key));
            if key.request.owner != me && query.asks == Asks::Owners && !is_said {
                let asked = theirs.entry(key.request.owner).or_insert(kv);
                if !purpose.says_more(kv) {
                    *asked = kv;
                }
            }
        }
        let is_late = query.shown_by <= Uptime::now();
        let timeout = self.owner_timeout();
        theirs.retain(|_, kv| !is_late && self.note_asked(kv).seen.elapsed() < timeout);
        // The list of an earlier revision may show owners that are none any more.
        let asked = theirs.values().filter(|kv| purpose.says_more(kv) && !is_cut);
        let steps: Vec<_> = asked.map(|kv| Step::Within(ask_owner(kv, purpose))).collect();
        for some in steps.chunks(MOST) {
            let transaction = Transaction { then: some.to_vec(), ..Transaction::default() };
            self.calls.push_back(Call::Write { transaction });
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
                let why = format!(
                    "cannot reach {}: what there is could not be listed in time",
                    self.store
                );
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
