use std::sync::Arc;

use navlock_core::{Mode, ResourceName};

use super::*;
use crate::{
    keys::LockKey,
    slots::Owner,
    table::Status,
    transactions::Owning,
    watched::{Event, Put},
};

/// Agents with one lease, apart from those in `without_lease`, which wait for it.
#[derive(Default)]
struct Agents {
    without_lease: Vec<AgentSerial>,
    /// Whether each agent has a lease of its own instead.
    has_several_leases: bool,
    /// The requests that the store may know of.
    known: Vec<RequestId>,
    /// How many bytes are written for each request.
    bytes: usize,
    /// The lease under which a name can be owned.
    owned_under: Option<i64>,
}

fn id(serial: u64) -> RequestId {
    RequestId::from_parts(0, serial)
}

fn key(of: RequestId) -> RequestKey {
    RequestKey { owner: 1, slot: of.serial() }
}

impl BucketHost for Agents {
    fn owner(&self, key: RequestKey, _: i64) -> Owner {
        Owner::Request(id(key.slot))
    }

    fn status(&self, _: RequestId) -> Status {
        Status::Pending(0)
    }

    fn ask(
        &mut self,
        agent: AgentSerial,
        request: RequestId,
    ) -> Option<Result<(Ask, RequestKind), Wait>> {
        if self.without_lease.contains(&agent) {
            return Some(Err(Wait));
        }
        self.known.push(request);
        let lease = if self.has_several_leases { i64::try_from(agent).unwrap() } else { 1 };
        let (request, mode) = (key(request), Mode::Exclusive);
        Some(Ok((
            Ask { request, mode, lease, value: vec![0; self.bytes] },
            RequestKind::Wait(mode),
        )))
    }

    fn keep_back(&mut self, request: RequestId) {
        self.known.retain(|known| *known != request);
    }

    fn refuse(&mut self, _: RequestId) {}

    fn owning(&self, _: &NameKey) -> Option<Owning> {
        let lease = self.owned_under?;
        Some(Owning { owner: 1, lease, value: Vec::new(), after: 0, run: Vec::new() })
    }

    fn me(&self) -> u128 {
        1
    }
}

fn name() -> NameKey {
    NameKey::new(&ResourceName::try_from("db").unwrap())
}

fn release(of: u64) -> Ended {
    let of = id(of);
    let (request, only) = (key(of), Some(Phase::Held));
    Ended { id: Some(of), request, mode: Mode::Exclusive, only }
}

fn bucket() -> Bucket {
    Bucket::new(BucketKeys::new("navlock", "b"))
}

/// All operations of the bucket, one after the other, until nothing is left to do.
fn operations(bucket: &mut Bucket, agents: &mut Agents) -> Vec<Operation> {
    let next = || {
        let operation = bucket.step(&name(), agents);
        bucket.ended(&name());
        operation
    };
    std::iter::from_fn(next).collect()
}

/// The requests that an operation makes or ends.
fn about(operation: &Operation) -> Vec<u64> {
    operation.own().iter().map(|key| key.slot).collect()
}

#[test]
fn a_release_does_not_wait_for_the_requests_of_others() {
    let mut bucket = bucket();
    for nth in 1..=1000 {
        bucket.push(name(), Todo::Request(id(nth), nth));
    }
    bucket.push(name(), Todo::Remove(release(0), Some(0)));
    let operations = operations(&mut bucket, &mut Agents::default());
    assert!(matches!(&operations[0], Operation::Remove(ended) if ended[0] == release(0)));
    // Requests of different agents share a transaction, as many as fit into it.
    assert_eq!(operations.len(), 1 + 1000_usize.div_ceil(MOST_ASKS));
    let asked: Vec<_> = operations[1..].iter().flat_map(about).collect();
    assert_eq!(asked, (1..=1000).collect::<Vec<_>>());
    assert!(bucket.is_idle(&name()));
}

#[test]
fn a_release_waits_for_what_its_own_agent_has_asked_for_before() {
    let mut bucket = bucket();
    bucket.push(name(), Todo::Request(id(1), 1));
    bucket.push(name(), Todo::Request(id(2), 2));
    bucket.push(name(), Todo::Remove(release(0), Some(2)));
    bucket.push(name(), Todo::Request(id(3), 3));
    bucket.push(name(), Todo::Remove(release(9), Some(9)));
    let operations = operations(&mut bucket, &mut Agents::default());
    let order: Vec<_> = operations.iter().map(about).collect();
    assert_eq!(order, [vec![9], vec![1, 2], vec![0], vec![3]]);
}

#[test]
fn a_release_does_not_wait_for_the_leases_of_others() {
    let mut bucket = bucket();
    let mut agents = Agents { without_lease: vec![1], ..Agents::default() };
    bucket.push(name(), Todo::Request(id(1), 1));
    bucket.push(name(), Todo::Remove(release(0), Some(0)));
    assert_eq!(operations(&mut bucket, &mut agents).len(), 1);
    assert!(!bucket.is_done(1), "the request waits");
    agents.without_lease.clear();
    assert_eq!(operations(&mut bucket, &mut agents).len(), 1);
    assert!(bucket.is_done(u64::MAX - 1));
}

#[test]
fn requests_of_several_leases_go_apart() {
    let mut bucket = bucket();
    for nth in [1, 2, 3] {
        bucket.push(name(), Todo::Request(id(nth), nth));
    }
    let mut agents = Agents { has_several_leases: true, ..Agents::default() };
    let apart: Vec<_> = operations(&mut bucket, &mut agents).iter().map(about).collect();
    assert_eq!(apart, [[1], [2], [3]]);
}

#[test]
fn the_store_knows_only_of_what_was_sent() {
    let mut bucket = bucket();
    for nth in [1, 2, 3] {
        bucket.push(name(), Todo::Request(id(nth), nth));
    }
    let mut agents = Agents { bytes: MOST_BYTES / 2, ..Agents::default() };
    let first = bucket.step(&name(), &mut agents).unwrap();
    assert_eq!(about(&first), [1, 2]);
    assert_eq!(agents.known, [id(1), id(2)]);
    bucket.ended(&name());
    let second = bucket.step(&name(), &mut agents).unwrap();
    assert_eq!(about(&second), [3]);
    assert_eq!(agents.known, [1, 2, 3].map(id));
}

/// The operation that is written when the lock of the first of these requests ends, while the others wait
/// in this order. Each request is given with the lease of its key. The name can be owned under the first
/// lease.
fn released(all: &[(u64, i64)]) -> Operation {
    let mut bucket = bucket();
    let event = |(revision, &(of, lease)): (i64, &(u64, i64))| {
        let phase = if revision == 1 { Phase::Held } else { Phase::Queued };
        let key = LockKey { name: name(), phase, mode: Mode::Exclusive, request: key(id(of)) };
        let put = Put { made: revision, lease, value: Arc::from([]) };
        Event { key, revision, put: Some(put) }
    };
    let events: Vec<_> = (1..).zip(all).map(event).collect();
    let revision = events.iter().map(|event| event.revision).max().unwrap_or(0);
    let mut view = View::unknown(0);
    view.mirror.reset(events, revision);
    view.owned_after(1);
    bucket.views.insert(name(), view);
    bucket.push(name(), Todo::Remove(release(all[0].0), None));
    let mut agents = Agents { owned_under: Some(1), ..Agents::default() };
    bucket.step(&name(), &mut agents).expect("it is released")
}

#[test]
fn a_name_is_owned_with_all_of_ours_who_wait() {
    assert!(matches!(released(&[(0, 1)]), Operation::Own(_, of) if of.run.is_empty()));
    let waiting = released(&[(0, 1), (1, 1), (2, 1)]);
    assert!(matches!(waiting, Operation::Own(_, of) if of.run.is_empty()));
}

#[test]
fn a_name_is_not_owned_in_which_something_waits_under_another_lease() {
    assert!(matches!(released(&[(0, 1), (1, 2)]), Operation::HandOver(..)));
    assert!(matches!(released(&[(0, 1), (1, 1), (2, 1), (3, 2)]), Operation::HandOver(..)));
}

#[test]
fn a_name_is_not_owned_whose_queue_has_another_order_than_that_of_the_calls() {
    assert!(matches!(released(&[(0, 1), (2, 1), (1, 1)]), Operation::HandOver(..)));
    // The run ends before the first request that is out of order.
    let run = released(&[(0, 1), (2, 1), (3, 1), (1, 1)]);
    assert!(matches!(run, Operation::Own(_, of) if of.run.len() == 2));
}
