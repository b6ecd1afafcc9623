use navlock_core::{Mode, ResourceName};

use super::*;
use crate::{
    data::{KeyValue, Step},
    keys::BucketKeys,
    mirror::Entry,
};

fn key(slot: usize) -> RequestKey {
    RequestKey { owner: 1, slot: slot as u64 }
}

/// How many operations etcd counts.
fn count(transaction: &Transaction) -> usize {
    let Transaction { when, then, or_else } = transaction;
    let within = then.iter().chain(or_else).map(|step| match step {
        Step::Within(inner) => count(inner),
        _ => 0,
    });
    when.len().max(then.len()).max(or_else.len()) + within.max().unwrap_or(0)
}

fn leaving(
    entries: impl IntoIterator<Item = LeavingEntry>,
    successors: impl IntoIterator<Item = Entry>,
) -> Operation {
    let (entries, successors) = (entries.into_iter().collect(), successors.into_iter().collect());
    Operation::Leave(Leaving { owner: 1, made: 1, entries, is_last: true, successors })
}

#[test]
fn etcd_takes_as_many_operations_as_any_transaction_has() {
    let name = NameKey::new(&ResourceName::try_from("db").unwrap());
    let keys = BucketKeys::new("navlock", "b").name(&name);
    for mode in [Mode::Exclusive, Mode::Shared] {
        let ask = |nth| Ask { request: key(nth), mode, lease: 1, value: Vec::new() };
        let entry = |nth| {
            let (request, value) = (key(nth), Arc::from([]));
            Entry { request, mode, made: 1, written: 1, lease: 1, value }
        };
        let ended = |nth| Ended { id: None, request: key(nth), mode, only: None };
        let owned = || {
            let (key, value, made) = (keys.owned(2), Vec::new(), 1);
            Box::new(KeyValue { key, value, made, written: made, lease: 1 })
        };
        let owning = Owning { owner: 1, lease: 1, value: Vec::new(), after: 0, run: Vec::new() };
        let run = Owning { run: (0..MOST).map(entry).collect(), ..owning.clone() };
        let all = [
            Operation::Request((0..MOST_ASKS).map(ask).collect()),
            Operation::IfAvailable((0..MOST_ASKS).map(ask).collect()),
            Operation::Steal(ask(0), Force::Waits),
            Operation::Steal(ask(0), Force::Asks(owned())),
            Operation::Steal(ask(0), Force::Robs(owned())),
            Operation::Grant((0..MOST).map(entry).collect()),
            Operation::Remove((0..MOST).map(ended).collect()),
            Operation::HandOver(ended(0), (0..MOST).map(entry).collect()),
            Operation::Own(ended(0), owning),
            Operation::Own(ended(0), run),
            leaving((0..MOST).map(|nth| LeavingEntry { phase: Phase::Held, ask: ask(nth) }), []),
            leaving([], (0..MOST).map(entry)),
        ];
        for operation in all {
            for again in [false, true] {
                let count = count(&operation.transaction(&keys, again));
                assert!(count <= MOST_OPERATIONS, "{count} of {operation:?}");
            }
        }
    }
}

#[test]
fn an_entry_given_up_by_a_repeated_call_says_when_it_was_written() {
    let name = NameKey::new(&ResourceName::try_from("db").unwrap());
    let bucket = BucketKeys::new("navlock", "b");
    let keys = bucket.name(&name);
    let ask = |nth| Ask { request: key(nth), mode: Mode::Exclusive, lease: 1, value: Vec::new() };
    let entries = [Phase::Held, Phase::Queued];
    let entries =
        entries.into_iter().enumerate().map(|(nth, phase)| LeavingEntry { phase, ask: ask(nth) });
    let leaving = leaving(entries, []);
    let made = |again, results| {
        let answer = Answer { revision: 9, cluster: 1, succeeded: true, results };
        let changes = leaving.changes((&bucket, &name), 1, again, &answer);
        leaving.read(again, &answer, &changes).requests
    };
    let gets = leaving.transaction(&keys, true).then;
    let is_asked = |step: &&Step| matches!(step, Step::Get(_));
    assert_eq!(gets.iter().filter(is_asked).count(), 2);
    let (lock, request) = (key(0), key(1));
    let found = [5, 6].map(|made| StepResult::Got(Some(made)));
    let found = [StepResult::Done, StepResult::Done].into_iter().chain(found).collect();
    let before = [(lock, Outcome::Held(5)), (request, Outcome::Queued(6))];
    assert_eq!(made(true, found), before);
    let now = [(lock, Outcome::Held(9)), (request, Outcome::Queued(9))];
    assert_eq!(made(false, Vec::new()), now);
}

#[test]
fn what_a_thief_takes_from_another_owner_is_left_to_the_watch() {
    let name = NameKey::new(&ResourceName::try_from("db").unwrap());
    let bucket = BucketKeys::new("navlock", "b");
    let keys = bucket.name(&name);
    let ask = Ask { request: key(0), mode: Mode::Exclusive, lease: 1, value: Vec::new() };
    let (owned, value) = (keys.owned(2), Vec::new());
    let robbed = KeyValue { key: owned.clone(), value, made: 1, written: 1, lease: 1 };
    let robs = Operation::Steal(ask, Force::Robs(Box::new(robbed)));
    let victim = keys.request(Phase::Held, Mode::Shared, key(7));
    let gone = [vec![victim], vec![owned, keys.owned(1)]].map(StepResult::Deleted);
    let answer = Answer { revision: 9, cluster: 1, succeeded: true, results: gone.to_vec() };
    let changes = robs.changes((&bucket, &name), 1, false, &answer);
    let seen = changes.iter().map(|of| (of.key.phase, of.key.request.owner, of.put.is_some()));
    let expected = [(Phase::Held, 1, false), (Phase::Owned, 1, false), (Phase::Held, 1, true)];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
}
