//! The transactions: all that changes anything in etcd.
//!
//! Each looks again at what it depends on, and each can be done again when its outcome is not
//! known: a request has a key of its own, so whether it was made can be seen. That a request is
//! first in its queue is known from the mirror and stays so (see there); that it still waits, and
//! that the held locks admit it, is asked here.
//!
//! A put under a lease that has ended fails with its whole transaction, so nobody is granted
//! anything after its death.

use std::sync::Arc;

use navlock_core::Mode;

use crate::{
    clock::wall_millis,
    data::{Answer, Check, KeyValue, Step, StepResult, Transaction, end_of_prefix},
    ended::Ended,
    keys::{LockKey, NameKey, NameKeys, Phase, RequestKey},
    mirror::{Entry, Event, Put},
    values::Value,
};

/// How many operations etcd takes in a transaction, unless it is set otherwise: it counts the longest of
/// the checks and the two branches, and of a transaction within one that on top.
#[cfg(test)]
const MOST_OPERATIONS: usize = 128;

/// How many requests are granted or ended in one transaction: each needs two operations.
pub(crate) const MOST: usize = 60;

/// How many are made in one: if that may have been done already, both keys of each are looked at, and
/// then it is put.
pub(crate) const MOST_ASKS: usize = 42;

/// What stands in place of a place where a name is its owner's for a run alone.
const RUN: u64 = 1;

/// How many bytes of values go into one transaction twice.
pub(crate) const MOST_BYTES: usize = 256 << 10;

/// A request to be written.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) request: RequestKey,
    pub(crate) mode: Mode,
    pub(crate) lease: i64,
    pub(crate) value: Vec<u8>,
}

/// What is to say whose a name is.
#[derive(Clone, Debug)]
pub(crate) struct Owning {
    pub(crate) owner: u128,
    pub(crate) lease: i64,
    pub(crate) value: Vec<u8>,
    /// The last revision that was heard of before.
    pub(crate) after: i64,
    /// It is to be ours for these alone, who are next, and then whose it is by the queue; for all of ours if
    /// there are none.
    pub(crate) run: Vec<Entry>,
}

impl Owning {
    /// For these alone.
    pub(crate) fn for_run(self, run: Vec<Entry>) -> Self {
        let value = Value::restamp(&self.value, wall_millis(), RUN);
        Self { value, run, ..self }
    }

    /// Whether a name is its owner's for a run alone, by what stands behind its key. So long somebody holds it.
    pub(crate) fn is_for_run(value: &[u8]) -> bool {
        Value::place(value) == RUN
    }
}

/// A name that is to be given up.
#[derive(Clone, Debug)]
pub(crate) struct Leaving {
    pub(crate) owner: u128,
    /// The revision since which it is owned.
    pub(crate) made: i64,
    /// Locks and requests that are to be written: some of them, or the last of them.
    pub(crate) kept: Vec<Kept>,
    pub(crate) is_last: bool,
    /// If there are none at all: who waits for it.
    pub(crate) successors: Vec<Entry>,
}

/// A lock or request of who owns a name.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) phase: Phase,
    pub(crate) ask: Ask,
}

/// What becomes of another machine's ownership of a name that is stolen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Force {
    /// The owner is asked for the name first, and ceases to grant it before it is stolen.
    Asks,
    /// It does not answer, and is robbed of the name.
    Robs,
}

/// Something to be done to one name.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// Requests that wait for their turn: the first is granted if it can be, all others queue.
    Request(Vec<Ask>),
    /// A request that does not wait. It never leaves anything in the queue.
    IfAvailable(Ask),
    Steal(Ask, Force),
    /// Grants what waits, whosever it is.
    Grant(Vec<Entry>),
    /// Ends requests and locks.
    Remove(Vec<Ended>),
    /// Releases a lock, and grants the next in the same revision.
    HandOver(Ended, Vec<Entry>),
    /// Releases the last lock, and has the name be this connection's from then on: with all of its
    /// requests that wait, if there are no others, or with those that are next.
    Own(Ended, Owning),
    /// Gives such a name up.
    Leave(Leaving),
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Granted, in this revision.
    Held(i64),
    /// It waits, since this revision or an earlier one.
    Queued(i64),
    /// It was not to be had at once.
    Unavailable,
    /// It is not there: granted, and ended again by somebody else.
    Gone,
}

/// What came of an operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcomes {
    pub(crate) requests: Vec<(RequestKey, Outcome)>,
    /// Whether nothing else is in the name at this revision.
    pub(crate) is_all: bool,
    /// The keys of the locks that were stolen.
    pub(crate) victims: Vec<Vec<u8>>,
    /// Since when the name is this connection's.
    pub(crate) owned: Option<i64>,
    /// The lock that was to be released for that was there still: no try before had done anything.
    pub(crate) was_held: bool,
    /// It is another's, who is to be asked for it.
    pub(crate) owner: Option<Box<KeyValue>>,
}

impl Operation {
    /// The transaction. `again` if it may have been done already.
    pub(crate) fn transaction(&self, keys: &NameKeys, again: bool) -> Transaction {
        match self {
            Self::Request(asks) => only_new(keys, asks, again, request(keys, asks)),
            Self::IfAvailable(ask) => {
                let mut then = vec![put(keys, Phase::Held, ask)];
                then.extend(count(keys, ask));
                let when = admits(keys, ask.mode, true);
                // Whoever owns it may not need it.
                let transaction = Transaction { when, then, or_else: vec![whose(keys)] };
                only_new(keys, std::slice::from_ref(ask), again, transaction)
            }
            Self::Steal(ask, force) => {
                only_new(keys, std::slice::from_ref(ask), again, steal(keys, ask, *force))
            }
            Self::Grant(entries) => grant(keys, entries),
            Self::Remove(ended) => {
                Transaction { then: removals(keys, ended), ..Transaction::default() }
            }
            Self::HandOver(from, successors) => hand_over(keys, *from, successors),
            Self::Own(from, owning) => own(keys, *from, owning),
            Self::Leave(leaving) => leave(keys, leaving, again),
        }
    }

    /// What came of the transaction.
    pub(crate) fn read(&self, again: bool, answer: &Answer) -> Outcomes {
        let revision = answer.revision;
        let mut outcomes = Outcomes::default();
        match self {
            Self::Remove(_) | Self::HandOver(..) => {}
            Self::Own(..) => {
                let mut got = answer.results.iter().filter_map(|result| match result {
                    StepResult::Got(made) => Some(*made),
                    _ => None,
                });
                let (lock, owned) = (got.next().flatten(), got.next().flatten());
                outcomes.was_held = answer.succeeded || lock.is_some();
                outcomes.owned = if answer.succeeded { Some(revision) } else { owned };
            }
            Self::Leave(leaving) => {
                let requests = leaving.kept.iter().map(|kept| (kept.phase, kept.ask.request));
                let mut got = answer.results.iter().filter_map(|result| match result {
                    StepResult::Got(made) => *made,
                    _ => None,
                });
                let written = |(phase, request)| {
                    let made = got.next().unwrap_or(revision);
                    match phase {
                        Phase::Queued => (request, Outcome::Queued(made)),
                        Phase::Held | Phase::Owned => (request, Outcome::Held(made)),
                    }
                };
                outcomes.requests = if answer.succeeded {
                    requests.map(written).collect()
                } else {
                    found(requests.map(|(_, request)| request), answer)
                };
            }
            Self::Grant(entries) => {
                let requests = entries.iter().map(|entry| entry.request);
                outcomes.requests = if answer.succeeded {
                    requests.map(|request| (request, Outcome::Held(revision))).collect()
                } else {
                    found(requests, answer)
                };
            }
            Self::Request(asks) => {
                let requests = asks.iter().map(|ask| ask.request);
                let Some(inner) = inner(again, answer) else {
                    outcomes.requests = found(requests, answer);
                    return outcomes;
                };
                let at_once = inner.succeeded && !is_long(asks);
                outcomes.is_all = at_once && asks.first().is_some_and(|ask| is_alone(ask, inner));
                let outcome = |nth| match nth {
                    0 if at_once => Outcome::Held(revision),
                    _ => Outcome::Queued(revision),
                };
                outcomes.requests =
                    requests.enumerate().map(|(nth, request)| (request, outcome(nth))).collect();
            }
            Self::IfAvailable(ask) | Self::Steal(ask, _) => {
                let request = ask.request;
                let Some(inner) = inner(again, answer) else {
                    outcomes.requests = found([request].into_iter(), answer);
                    return outcomes;
                };
                let outcome =
                    if inner.succeeded { Outcome::Held(revision) } else { Outcome::Unavailable };
                outcomes.requests = vec![(request, outcome)];
                outcomes.is_all =
                    matches!(self, Self::IfAvailable(_)) && inner.succeeded && is_alone(ask, inner);
                for result in &inner.results {
                    match result {
                        StepResult::Deleted(victims) => {
                            outcomes.victims.extend_from_slice(victims);
                        }
                        StepResult::First(owner) => outcomes.owner.clone_from(owner),
                        _ => {}
                    }
                }
            }
        }
        outcomes
    }

    /// What there is of a name after this has granted the first of its requests in this revision, and
    /// nothing else was there.
    pub(crate) fn all_events(&self, name: &NameKey, revision: i64) -> Vec<Event> {
        let asks = match self {
            Self::Request(asks) => &**asks,
            Self::IfAvailable(ask) => std::slice::from_ref(ask),
            _ => &[],
        };
        let made = asks.iter().enumerate().map(|(nth, ask)| {
            let &Ask { request, mode, lease, ref value } = ask;
            let phase = if nth == 0 { Phase::Held } else { Phase::Queued };
            let key = LockKey { name: name.clone(), phase, mode, request };
            let put = Some(Put { made: revision, lease, value: Arc::from(&**value) });
            Event { key, revision, put }
        });
        made.collect()
    }

    /// The requests that it makes or ends. All of them are ours, but for those of a grant.
    pub(crate) fn own(&self) -> Vec<RequestKey> {
        match self {
            Self::Request(asks) => asks.iter().map(|ask| ask.request).collect(),
            Self::IfAvailable(ask) | Self::Steal(ask, _) => vec![ask.request],
            Self::Grant(entries) => entries.iter().map(|entry| entry.request).collect(),
            Self::Remove(ended) => ended.iter().map(|ended| ended.request).collect(),
            Self::HandOver(ended, _) | Self::Own(ended, _) => vec![ended.request],
            Self::Leave(leaving) => leaving.kept.iter().map(|kept| kept.ask.request).collect(),
        }
    }

    /// Whether it makes requests under more than one lease.
    pub(crate) fn has_several_leases(&self) -> bool {
        match self {
            Self::Request(asks) => asks.iter().any(|ask| ask.lease != asks[0].lease),
            _ => false,
        }
    }

    /// What it ends, and so frees the keys of.
    pub(crate) fn ends(&self) -> &[Ended] {
        match self {
            Self::HandOver(ended, _) | Self::Own(ended, _) => std::slice::from_ref(ended),
            Self::Remove(ended) => ended,
            _ => &[],
        }
    }
}

/// Whether the names in the values are too long to be sent in both branches.
fn is_long(asks: &[Ask]) -> bool {
    asks.iter().map(|ask| ask.value.len()).sum::<usize>() > MOST_BYTES
}

fn empty(prefix: &[u8]) -> Check {
    Check::Empty(prefix.to_vec(), end_of_prefix(prefix))
}

/// Whether the held locks, and the queue for who is not in it, admit a lock.
fn admits(keys: &NameKeys, mode: Mode, is_new: bool) -> Vec<Check> {
    let mut admits = vec![empty(&match mode {
        Mode::Exclusive => keys.held(),
        Mode::Shared => keys.held_exclusive(),
    })];
    if is_new {
        admits.push(empty(&keys.queue()));
    }
    admits
}

fn put(keys: &NameKeys, phase: Phase, ask: &Ask) -> Step {
    let key = keys.request(phase, ask.mode, ask.request);
    Step::Put { key, value: ask.value.clone(), lease: ask.lease }
}

fn request(keys: &NameKeys, asks: &[Ask]) -> Transaction {
    let queue = |ask| put(keys, Phase::Queued, ask);
    let all: Vec<_> = asks.iter().map(queue).collect();
    let Some((first, rest)) = asks.split_first() else {
        return Transaction::default();
    };
    if is_long(asks) {
        // Its own process grants it next, if it can be.
        return Transaction { then: all, ..Transaction::default() };
    }
    let granted = [put(keys, Phase::Held, first)].into_iter().chain(rest.iter().map(queue));
    let granted = granted.chain(count(keys, first)).collect();
    Transaction { when: admits(keys, first.mode, true), then: granted, or_else: all }
}

/// Asks whether others hold beside a lock that was granted because nobody held who excludes it.
fn count(keys: &NameKeys, granted: &Ask) -> Option<Step> {
    let is_shared = granted.mode == Mode::Shared;
    is_shared.then(|| Step::Count(keys.held(), keys.end_of_held()))
}

/// Whether this lock, which was granted so, is held alone. Nobody waited before it.
fn is_alone(granted: &Ask, answer: &Answer) -> bool {
    let counted = answer.results.iter().find_map(|result| match result {
        StepResult::Counted(count) => Some(*count),
        _ => None,
    });
    granted.mode == Mode::Exclusive || counted == Some(1)
}

/// Everybody who holds goes, whoever it is. A range must not have in it what is put.
fn steal(keys: &NameKeys, ask: &Ask, force: Force) -> Transaction {
    let own = keys.request(Phase::Held, ask.mode, ask.request);
    let [before, after] = others(keys, &own).map(|(start, end)| Step::DeleteRange(start, end));
    let then = vec![before, after, put(keys, Phase::Held, ask)];
    let (start, end) = keys.all_owned();
    match force {
        Force::Asks => {
            Transaction { when: vec![Check::Empty(start, end)], then, or_else: vec![whose(keys)] }
        }
        Force::Robs => Transaction { then, ..Transaction::default() },
    }
}

/// Asks who owns a name.
fn whose(keys: &NameKeys) -> Step {
    let (start, end) = keys.all_owned();
    Step::First(start, end)
}

/// The ranges of all held locks but this.
pub(crate) fn others(keys: &NameKeys, own: &[u8]) -> [(Vec<u8>, Vec<u8>); 2] {
    let after = [own, &[0]].concat();
    [(keys.held(), own.to_vec()), (after, keys.end_of_held())]
}

fn both_keys(keys: &NameKeys, mode: Mode, request: RequestKey) -> [Vec<u8>; 2] {
    [Phase::Held, Phase::Queued].map(|phase| keys.request(phase, mode, request))
}

/// The same, if none of this was asked for yet; else looks for what became of it.
///
/// A late first try may still come after this one. Then a request stands in the queue of which
/// nobody knows, until its owner sees it there and removes it. Such a key is not used again.
fn only_new(keys: &NameKeys, asks: &[Ask], again: bool, transaction: Transaction) -> Transaction {
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

/// Turns a request into a lock. The key of the one goes in the revision that makes the other's.
fn promote(keys: &NameKeys, nth: usize, entry: &Entry) -> [Step; 2] {
    let &Entry { request, mode, lease, ref value, .. } = entry;
    let value = Value::restamp(value, wall_millis(), nth as u64);
    [
        Step::Delete(keys.request(Phase::Queued, mode, request)),
        put(keys, Phase::Held, &Ask { request, mode, lease, value }),
    ]
}

fn promote_all(keys: &NameKeys, entries: &[Entry]) -> impl Iterator<Item = Step> {
    entries.iter().enumerate().flat_map(|(nth, entry)| promote(keys, nth, entry))
}

/// Whether it still waits.
fn waits(keys: &NameKeys, entry: &Entry) -> Check {
    Check::MadeIn(keys.request(Phase::Queued, entry.mode, entry.request), entry.made)
}

fn grant(keys: &NameKeys, entries: &[Entry]) -> Transaction {
    let mode = entries.first().map_or(Mode::Exclusive, |entry| entry.mode);
    let mut when: Vec<_> = entries.iter().map(|entry| waits(keys, entry)).collect();
    when.extend(admits(keys, mode, false));
    let all = entries.iter().flat_map(|entry| both_keys(keys, entry.mode, entry.request));
    let or_else = all.map(Step::Get).collect();
    Transaction { when, then: promote_all(keys, entries).collect(), or_else }
}

fn removals(keys: &NameKeys, ended: &[Ended]) -> Vec<Step> {
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

fn hand_over(keys: &NameKeys, from: Ended, successors: &[Entry]) -> Transaction {
    let own = keys.request(Phase::Held, from.mode, from.request);
    let mut when: Vec<_> = successors.iter().map(|successor| waits(keys, successor)).collect();
    when.push(Check::Present(own.clone()));
    when.extend(others(keys, &own).map(|(start, end)| Check::Empty(start, end)));
    let then = [Step::Delete(own)].into_iter().chain(promote_all(keys, successors)).collect();
    Transaction { when, then, or_else: removals(keys, &[from]) }
}

/// A key that was made by a late try of this is noticed by its owner, who does not know of it. That those of
/// a run are first in the queue is known from the mirror, and stays so.
fn own(keys: &NameKeys, from: Ended, owning: &Owning) -> Transaction {
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

/// Nobody else puts or grants anything that this could collide with, for as long as the key is there that
/// says whose the name is. So what is written in several transactions is there in one, that of the last.
/// A part that may have been written already says when it was.
fn leave(keys: &NameKeys, leaving: &Leaving, again: bool) -> Transaction {
    let owned = keys.owned(leaving.owner);
    let is_owned = Check::MadeIn(owned.clone(), leaving.made);
    if !leaving.successors.is_empty() {
        let mut when = vec![is_owned.clone()];
        when.extend(leaving.successors.iter().map(|successor| waits(keys, successor)));
        when.extend(others(keys, &owned).map(|(start, end)| Check::Empty(start, end)));
        let gone = Step::Delete(owned);
        let then =
            [gone.clone()].into_iter().chain(promote_all(keys, &leaving.successors)).collect();
        let alone = Transaction { when: vec![is_owned], then: vec![gone], or_else: Vec::new() };
        return Transaction { when, then, or_else: vec![Step::Within(alone)] };
    }
    let put = |kept: &Kept| put(keys, kept.phase, &kept.ask);
    let mut then: Vec<_> = leaving.kept.iter().map(put).collect();
    if again {
        let key = |kept: &Kept| keys.request(kept.phase, kept.ask.mode, kept.ask.request);
        then.extend(leaving.kept.iter().map(|kept| Step::Get(key(kept))));
    }
    if leaving.is_last {
        then.push(Step::Delete(owned));
    }
    let all = leaving.kept.iter().map(|kept| &kept.ask);
    let all = all.flat_map(|ask| both_keys(keys, ask.mode, ask.request));
    Transaction { when: vec![is_owned], then, or_else: all.map(Step::Get).collect() }
}

/// What for the owner of a name is asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// To have the name oneself.
    ToHave,
    /// To see who has it.
    ToSee,
}

impl Wish {
    /// What is written so: larger for what says more.
    fn mark(self) -> u64 {
        match self {
            Self::ToSee => 1,
            Self::ToHave => 2,
        }
    }

    /// What an owner was asked for, by what it finds behind its key; `None` if nothing.
    pub(crate) fn of(value: &[u8]) -> Option<Self> {
        match Value::mark(value) {
            0 => None,
            1 => Some(Self::ToSee),
            _ => Some(Self::ToHave),
        }
    }

    /// Whether the owner is to be asked so, who was asked this before.
    pub(crate) fn says_more(self, owned: &KeyValue) -> bool {
        self.mark() > Value::mark(&owned.value)
    }
}

/// Asks the owner of a name for it, by what stands behind the key that says so.
pub(crate) fn ask_owner(owned: &KeyValue, wish: Wish) -> Transaction {
    let KeyValue { key, value, made, lease, .. } = owned;
    let (when, value) =
        (vec![Check::MadeIn(key.clone(), *made)], Value::marked(value, wish.mark()));
    let then = vec![Step::Put { key: key.clone(), value, lease: *lease }];
    Transaction { when, then, or_else: Vec::new() }
}

/// What came of the transaction itself; `None` if it was wrapped and not done this time.
fn inner(again: bool, answer: &Answer) -> Option<&Answer> {
    if !again {
        return Some(answer);
    }
    answer.results.iter().find_map(|result| match result {
        StepResult::Within(inner) => Some(inner),
        _ => None,
    })
}

/// What the gets of both keys of each request say.
fn found(
    requests: impl Iterator<Item = RequestKey>,
    answer: &Answer,
) -> Vec<(RequestKey, Outcome)> {
    let mut results = answer.results.iter().map(|result| match result {
        StepResult::Got(made) => *made,
        _ => None,
    });
    requests
        .map(|request| {
            let (held, queued) = (results.next().flatten(), results.next().flatten());
            let outcome = match (held, queued) {
                (Some(made), _) => Outcome::Held(made),
                (None, Some(made)) => Outcome::Queued(made),
                (None, None) => Outcome::Gone,
            };
            (request, outcome)
        })
        .collect()
}

#[cfg(test)]
mod tests;
