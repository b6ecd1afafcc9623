//! Builds the transactions: what each one checks, and what it does.

use navlock_core::Mode;

use super::{
    ask_purpose::{AskPurpose, ask_owner},
    operation::{Ask, Force, Leaving, LeavingEntry, MOST_BYTES, Owning},
};
use crate::{
    clock::wall_millis,
    data::{Answer, Check, Step, StepResult, Transaction, prefix_end},
    ended::Ended,
    keys::{BucketKeys, NameKeys, Phase, RequestKey},
    mirror::Entry,
    values::Value,
};

/// Whether the names in the values are too long to be sent in both branches.
pub(super) fn is_long(asks: &[Ask]) -> bool {
    asks.iter().map(|ask| ask.value.len()).sum::<usize>() > MOST_BYTES
}

pub(super) fn empty(prefix: &[u8]) -> Check {
    Check::Empty(prefix.to_vec(), prefix_end(prefix))
}

/// The checks that the held locks admit a lock and, if the request has no place in the queue, that
/// the queue is empty.
pub(super) fn admits(keys: &NameKeys, mode: Mode, is_new: bool) -> Vec<Check> {
    let mut admits = vec![empty(&match mode {
        Mode::Exclusive => keys.held(),
        Mode::Shared => keys.held_exclusive(),
    })];
    if is_new {
        admits.push(empty(&keys.queue()));
    }
    admits
}

pub(super) fn put(keys: &NameKeys, phase: Phase, ask: &Ask) -> Step {
    let key = keys.request(phase, ask.mode, ask.request);
    Step::Put { key, value: ask.value.clone(), lease: ask.lease }
}

pub(super) fn request(keys: &NameKeys, asks: &[Ask]) -> Transaction {
    let queue = |ask| put(keys, Phase::Queued, ask);
    let all: Vec<_> = asks.iter().map(queue).collect();
    let Some((first, rest)) = asks.split_first() else {
        return Transaction::default();
    };
    if is_long(asks) {
        // If the request can be granted, its own connection grants it next.
        return Transaction { then: all, ..Transaction::default() };
    }
    let granted = [put(keys, Phase::Held, first)].into_iter().chain(rest.iter().map(queue));
    let granted = granted.chain(count(keys, first)).collect();
    Transaction { when: admits(keys, first.mode, true), then: granted, or_else: all }
}

/// Counts the locks of a name, if a shared lock was granted because no exclusive lock was held.
pub(super) fn count(keys: &NameKeys, granted: &Ask) -> Option<Step> {
    let is_shared = granted.mode == Mode::Shared;
    is_shared.then(|| Step::Count(keys.held(), keys.end_of_held()))
}

/// Whether this lock, which was granted after these checks, is held alone. Nobody waited before it.
pub(super) fn is_alone(granted: &Ask, answer: &Answer) -> bool {
    let counted = answer.results.iter().find_map(|result| match result {
        StepResult::Counted(count) => Some(*count),
        _ => None,
    });
    granted.mode == Mode::Exclusive || counted == Some(1)
}

/// Deletes the locks of all holders, and puts the lock of the thief. No deleted range may contain
/// the key that is put.
///
/// This also deletes the key of an owner. It does so only for the owner of the key that was seen, so
/// that nobody is robbed who was not asked.
///
/// The thief notes the theft in its mailbox. If the answer is lost, and the next thief has removed the
/// lock before the next try, that note tells that there is nothing left to do.
pub(super) fn steal(keys: &NameKeys, ask: &Ask, force: &Force) -> Transaction {
    let own = keys.request(Phase::Held, ask.mode, ask.request);
    let [before, after] = others(keys, &own).map(|(start, end)| Step::DeleteRange(start, end));
    let note = stolen(keys, ask);
    let noted = Step::Put { key: note.clone(), value: Vec::new(), lease: ask.lease };
    let mut then = vec![before, after, put(keys, Phase::Held, ask), noted];
    let (start, end) = keys.all_owned();
    let nobodys = Check::Empty(start, end);
    let (when, or_else) = match force {
        Force::Waits => (nobodys, vec![whose(keys)]),
        Force::Asks(owned) => {
            let asks = ask_owner(owned, AskPurpose::ToHave);
            (nobodys, vec![Step::Within(asks), whose(keys)])
        }
        Force::Robs(owned) => {
            then.push(Step::Delete(BucketKeys::asked(&owned.key)));
            (Check::MadeIn(owned.key.clone(), owned.made), vec![whose(keys)])
        }
    };
    Transaction { when: vec![when, Check::Absent(note)], then, or_else }
}

/// The key by which a thief notes that it has stolen.
pub(super) fn stolen(keys: &NameKeys, thief: &Ask) -> Vec<u8> {
    let lock = keys.request(Phase::Held, thief.mode, thief.request);
    BucketKeys::stolen(&lock, thief.request, Value::place(&thief.value))
}

/// Asks who owns a name.
pub(super) fn whose(keys: &NameKeys) -> Step {
    let (start, end) = keys.all_owned();
    Step::First(start, end)
}

/// The ranges of all held locks except this one.
pub(crate) fn others(keys: &NameKeys, own: &[u8]) -> [(Vec<u8>, Vec<u8>); 2] {
    let after = [own, &[0]].concat();
    [(keys.held(), own.to_vec()), (after, keys.end_of_held())]
}

pub(super) fn both_keys(keys: &NameKeys, mode: Mode, request: RequestKey) -> [Vec<u8>; 2] {
    [Phase::Held, Phase::Queued].map(|phase| keys.request(phase, mode, request))
}

/// Does the transaction only if none of these requests was made yet. Otherwise looks for what has
/// become of them.
///
/// A late first try may still come after this one. It puts a request into the queue that nobody
/// knows of, until its owner sees the request there and removes it. Such a key is not used again.
pub(super) fn only_new(
    keys: &NameKeys,
    asks: &[Ask],
    again: bool,
    transaction: Transaction,
) -> Transaction {
    if !again {
        return transaction;
    }
    let all: Vec<_> = asks.iter().flat_map(|ask| both_keys(keys, ask.mode, ask.request)).collect();
    Transaction {
        when: all.iter().cloned().map(Check::Absent).collect(),
        then: vec![Step::Within(transaction)],
        or_else: all.into_iter().map(Step::Get).collect(),
    }
}

/// Turns a request into a lock. The key of the request is deleted in the revision that makes the
/// key of the lock.
pub(super) fn promote(keys: &NameKeys, nth: usize, entry: &Entry) -> [Step; 2] {
    let &Entry { request, mode, lease, ref value, .. } = entry;
    let value = Value::restamp(value, wall_millis(), nth as u64);
    [
        Step::Delete(keys.request(Phase::Queued, mode, request)),
        put(keys, Phase::Held, &Ask { request, mode, lease, value }),
    ]
}

pub(super) fn promote_all(keys: &NameKeys, entries: &[Entry]) -> impl Iterator<Item = Step> {
    entries.iter().enumerate().flat_map(|(nth, entry)| promote(keys, nth, entry))
}

/// Checks that the request still waits.
pub(super) fn waits(keys: &NameKeys, entry: &Entry) -> Check {
    Check::MadeIn(keys.request(Phase::Queued, entry.mode, entry.request), entry.made)
}

pub(super) fn grant(keys: &NameKeys, entries: &[Entry]) -> Transaction {
    let mode = entries.first().map_or(Mode::Exclusive, |entry| entry.mode);
    let mut when: Vec<_> = entries.iter().map(|entry| waits(keys, entry)).collect();
    when.extend(admits(keys, mode, false));
    let all = entries.iter().flat_map(|entry| both_keys(keys, entry.mode, entry.request));
    let or_else = all.map(Step::Get).collect();
    Transaction { when, then: promote_all(keys, entries).collect(), or_else }
}

pub(super) fn removals(keys: &NameKeys, ended: &[Ended]) -> Vec<Step> {
    let mut steps = Vec::new();
    for &Ended { request, mode, only, .. } in ended {
        let phases = match only {
            Some(phase) => vec![phase],
            None => vec![Phase::Held, Phase::Queued],
        };
        steps.extend(phases.iter().map(|&phase| Step::Delete(keys.request(phase, mode, request))));
    }
    steps
}

pub(super) fn hand_over(keys: &NameKeys, from: Ended, successors: &[Entry]) -> Transaction {
    let own = keys.request(Phase::Held, from.mode, from.request);
    let mut when: Vec<_> = successors.iter().map(|successor| waits(keys, successor)).collect();
    when.push(Check::Present(own.clone()));
    when.extend(others(keys, &own).map(|(start, end)| Check::Empty(start, end)));
    let then = [Step::Delete(own)].into_iter().chain(promote_all(keys, successors)).collect();
    Transaction { when, then, or_else: removals(keys, &[from]) }
}

/// Makes this connection the owner of the name. If a late try makes the owner key, the connection
/// sees a key that it does not know of. The transaction does not check that the requests of a run are
/// first in the queue, because the mirror knows this, and they stay first.
pub(super) fn own(keys: &NameKeys, from: Ended, owning: &Owning) -> Transaction {
    let &Owning { owner, lease, ref value, ref run, .. } = owning;
    let held = keys.request(Phase::Held, from.mode, from.request);
    let owned = keys.owned(owner);
    let empty = |(start, end)| Check::Empty(start, end);
    let mut when = vec![Check::Present(held.clone())];
    when.extend(others(keys, &held).map(empty));
    let mut then = vec![Step::Delete(held.clone())];
    if run.is_empty() {
        when.extend(keys.queue_of_others(owner).map(empty));
        then.extend(keys.queue_of(owner).map(|(start, end)| Step::DeleteRange(start, end)));
    } else {
        let key = |entry: &Entry| keys.request(Phase::Queued, entry.mode, entry.request);
        when.extend(run.iter().map(|entry| waits(keys, entry)));
        then.extend(run.iter().map(|entry| Step::Delete(key(entry))));
    }
    then.push(Step::Put { key: owned.clone(), value: value.clone(), lease });
    let mut or_else = vec![Step::Get(held)];
    or_else.extend(removals(keys, &[from]));
    or_else.push(Step::Get(owned));
    Transaction { when, then, or_else }
}

/// Gives up a name. As long as the owner key stands, nobody else puts or grants anything that could
/// conflict. So when the last transaction deletes the owner key, everything that the earlier ones
/// have written is there. If a part may have been written already, the transaction reads the
/// revisions in which that happened.
pub(super) fn leave(keys: &NameKeys, leaving: &Leaving, again: bool) -> Transaction {
    let owned = keys.owned(leaving.owner);
    let is_owned = Check::MadeIn(owned.clone(), leaving.made);
    // The question is answered with that.
    let gone = [owned.clone(), BucketKeys::asked(&owned)].map(Step::Delete);
    if !leaving.successors.is_empty() {
        let mut when = vec![is_owned.clone()];
        when.extend(leaving.successors.iter().map(|successor| waits(keys, successor)));
        when.extend(others(keys, &owned).map(|(start, end)| Check::Empty(start, end)));
        let then = gone.iter().cloned().chain(promote_all(keys, &leaving.successors)).collect();
        let alone = Transaction { when: vec![is_owned], then: gone.into(), or_else: Vec::new() };
        return Transaction { when, then, or_else: vec![Step::Within(alone)] };
    }
    let put = |entry: &LeavingEntry| put(keys, entry.phase, &entry.ask);
    let mut then: Vec<_> = leaving.entries.iter().map(put).collect();
    if again {
        let key =
            |entry: &LeavingEntry| keys.request(entry.phase, entry.ask.mode, entry.ask.request);
        then.extend(leaving.entries.iter().map(|entry| Step::Get(key(entry))));
    }
    if leaving.is_last {
        then.extend(gone);
    }
    let all = leaving.entries.iter().map(|entry| &entry.ask);
    let all = all.flat_map(|ask| both_keys(keys, ask.mode, ask.request));
    Transaction { when: vec![is_owned], then, or_else: all.map(Step::Get).collect() }
}
