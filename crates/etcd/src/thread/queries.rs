//! Snapshots: one range is one revision.

use std::time::Duration;

use etcd_client::GetResponse;
use futures_util::FutureExt;
use navlock_core::{Error, Inspection};
use tokio::{sync::oneshot, time::Instant};

use super::{Done, Keeper};
use crate::{
    calls::{self, Failure},
    query::inspection,
};

/// How often a snapshot is taken again because ours were just being granted.
const ROUNDS: u32 = 5;

/// Somebody wants to know.
pub(super) struct Query {
    bucket: u64,
    /// All that was to be done up to this number comes first: who asks sees its own requests, and
    /// not what it has released.
    after: u64,
    rounds: u32,
    is_asking: bool,
    deadline: Instant,
    answer: oneshot::Sender<Result<Inspection, Error>>,
}

impl Keeper {
    pub(super) fn query(
        &mut self,
        bucket: u64,
        answer: oneshot::Sender<Result<Inspection, Error>>,
    ) {
        let Some(house) = self.buckets.get(&bucket) else { return };
        let after = house.bucket.last();
        let deadline = Instant::now() + self.options.time_to_live;
        let query = Query { bucket, after, rounds: 0, is_asking: false, deadline, answer };
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
            let (prefix, patience) = (house.bucket.keys.all(), self.options.call());
            let list = calls::list(self.kv.clone(), prefix, Duration::ZERO, patience);
            let done = list.map(move |result| Done::Queried { query: number, result });
            self.running.push(done.boxed());
        }
    }

    pub(super) fn queried(&mut self, number: u64, result: Result<GetResponse, Failure>) {
        let Some(query) = self.queries.get_mut(&number) else { return };
        query.is_asking = false;
        let bucket = query.bucket;
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
        self.take_in(bucket, &listed);
        let (Some(house), Some(query)) = (self.buckets.get(&bucket), self.queries.get_mut(&number))
        else {
            return;
        };
        // Ours that were just being granted: part of what came before.
        let waiting = house.bucket.mirror.waiting(self.owner);
        let is_settled = waiting.iter().all(|name| house.bucket.is_idle(name));
        query.rounds += 1;
        if !is_settled && query.rounds < ROUNDS {
            query.after = house.bucket.last();
            return self.advance_queries();
        }
        let inspection = inspection(&house.bucket.keys, listed.kvs());
        if let Some(query) = self.queries.remove(&number) {
            let _ = query.answer.send(Ok(inspection));
        }
    }

    /// Tells those who have waited for too long, and asks again for the others.
    pub(super) fn check_queries(&mut self) {
        let now = Instant::now();
        let late: Vec<u64> = self
            .queries
            .iter()
            .filter(|(_, query)| query.deadline <= now || query.answer.is_closed())
            .map(|(&number, _)| number)
            .collect();
        for number in late {
            if let Some(query) = self.queries.remove(&number) {
                let why = "cannot reach etcd: the bucket could not be listed in time; try again";
                let _ = query.answer.send(Err(Error::Unreachable(why.to_owned())));
            }
        }
        self.advance_queries();
    }
}
