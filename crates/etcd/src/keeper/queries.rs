//! Snapshots: one range is one revision.

use std::{collections::HashMap, time::Duration};

use navlock_core::Error;
use tokio::sync::oneshot;

use super::{Call, Keeper, Listed};
use crate::{
    clock::Moment,
    data::{KeyValue, Listing, end_of_prefix},
    failure::Failure,
    hash::HashState,
    keys::NameKey,
    query::{Seen, seen},
};

/// How often a snapshot is taken again because ours were just being granted.
const ROUNDS: u32 = 5;

/// For how long a snapshot is tried to be had: who asks what is wrong is told that etcd does not
/// answer while its locks may still last.
const PATIENCE: Duration = Duration::from_secs(5);

/// Somebody wants to know.
pub(super) struct Query {
    bucket: u64,
    /// About this name, or all.
    name: Option<NameKey>,
    most: usize,
    /// All that was to be done up to this number comes first: who asks sees its own requests, and
    /// not what it has released.
    after: u64,
    rounds: u32,
    is_asking: bool,
    deadline: Moment,
    answer: oneshot::Sender<Result<Seen, Error>>,
}

impl Keeper {
    pub(super) fn query(
        &mut self,
        bucket: u64,
        name: Option<NameKey>,
        most: usize,
        answer: oneshot::Sender<Result<Seen, Error>>,
    ) {
        let Some(house) = self.buckets.get(&bucket) else { return };
        let after = house.bucket.last();
        let deadline = Moment::now().after(self.options.time_to_live.min(PATIENCE));
        let (rounds, is_asking) = (0, false);
        let query = Query { bucket, name, most, after, rounds, is_asking, deadline, answer };
        self.queries.insert(self.next_query, query);
        self.next_query += 1;
        self.advance_queries();
    }

    /// Asks for those that can be answered now.
    pub(super) fn advance_queries(&mut self) {
        if self.queries.is_empty() {
            return;
        }
        for (&number, query) in &mut self.queries {
            let Some(house) = self.buckets.get(&query.bucket) else { continue };
            if query.is_asking || !house.bucket.is_done(query.after) {
                continue;
            }
            query.is_asking = true;
            let keys = &house.bucket.keys;
            let all = |name| keys.name(name).all();
            let prefix = query.name.as_ref().map_or_else(|| keys.all(), all);
            let of = Listed::Query(number);
            let (known, most, delay) = (self.history.known(), query.most, Duration::ZERO);
            self.calls.push_back(Call::List { of, known, prefix, most, delay });
        }
    }

    /// What was asked was asked of an etcd that has begun anew since.
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
            // There is a deadline; the next tick asks again.
            Err(Failure::Unknown(_)) => return,
            Err(failure) => {
                if let Some(query) = self.queries.remove(&number) {
                    let _ = query.answer.send(Err(failure.error()));
                }
                return;
            }
        };
        self.take_in_waiting(bucket, name.as_ref(), &listed);
        let Some(house) = self.buckets.get(&bucket) else { return };
        // Ours that were just being granted: part of what came before.
        let is_settled = self.waiting(&house.bucket).iter().all(|name| house.bucket.is_idle(name));
        let Some(query) = self.queries.get_mut(&number) else { return };
        query.rounds += 1;
        if !is_settled && query.rounds < ROUNDS {
            query.after = house.bucket.last();
            return self.advance_queries();
        }
        let mut seen = seen(&house.bucket.keys, &listed.found);
        // How it is with ours is known.
        for one in seen.held.iter_mut().chain(&mut seen.pending) {
            one.lease =
                Some(one.lease).filter(|lease| !self.leases.contains_key(lease)).unwrap_or(0);
        }
        seen.left_out = listed.left_out;
        if let Some(query) = self.queries.remove(&number) {
            let _ = query.answer.send(Ok(seen));
        }
    }

    /// Takes in what a snapshot, of one name or all, says of names in which something of ours waits:
    /// what can be granted is part of what came before.
    fn take_in_waiting(&mut self, bucket: u64, of: Option<&NameKey>, listed: &Listing) {
        let Some(house) = self.buckets.get(&bucket) else { return };
        // What is not told of may be there.
        let is_told = |name: &NameKey| {
            let prefix = house.bucket.keys.name(name).all();
            let last = listed.found.last().map(|kv| &kv.key);
            let is_whole = listed.left_out == 0;
            of.is_none_or(|of| of == name)
                && (is_whole || last.is_some_and(|last| *last >= end_of_prefix(&prefix)))
        };
        let mut waiting: HashMap<NameKey, Vec<KeyValue>, HashState> = HashMap::default();
        // Not by their mirrors, which may be behind.
        let table = self.shared.table();
        for name in house.bucket.views.keys() {
            if table.waits_for(bucket, name) && is_told(name) {
                waiting.insert(name.clone(), Vec::new());
            }
        }
        drop(table);
        if waiting.is_empty() {
            return;
        }
        for kv in &listed.found {
            let key = house.bucket.keys.parse(&kv.key);
            if let Some(of) = key.and_then(|key| waiting.get_mut(&key.name)) {
                of.push(kv.clone());
            }
        }
        for (name, found) in waiting {
            self.take_in(bucket, &name, &found, listed.revision);
        }
    }

    /// Tells those who have waited for too long, and asks again for the others.
    pub(super) fn check_queries(&mut self) {
        let now = Moment::now();
        let late: Vec<u64> = self
            .queries
            .iter()
            .filter(|(_, query)| query.deadline <= now || query.answer.is_closed())
            .map(|(&number, _)| number)
            .collect();
        for number in late {
            if let Some(query) = self.queries.remove(&number) {
                let why = "cannot reach etcd: what there is could not be listed in time";
                let _ = query.answer.send(Err(Error::Unreachable(why.to_owned())));
            }
        }
        self.advance_queries();
    }
}
