//! The transactions: every change to the store's keys goes through one of these.
//!
//! Each transaction checks again what it depends on. Each can also be done again when its outcome
//! is unknown, because a request has a key of its own, which shows whether the request was made.
//! The mirror knows that a request is first in its queue, and this stays so (see there). The
//! transaction checks that the request still waits, and that the held locks admit it.
//!
//! A put under a lease that has ended fails, and the whole transaction with it. So nobody is
//! granted anything after its death.

mod ask_purpose;
mod builders;
mod operation;

use std::sync::Arc;

use self::builders::{
    admits, count, grant, hand_over, is_alone, leave, only_new, own, put, removals, request, steal,
    stolen, whose,
};
#[cfg(test)]
use self::operation::MOST_OPERATIONS;
pub(crate) use self::{
    ask_purpose::{AskPurpose, ask_owner, say_held, say_who},
    builders::others,
    operation::{
        Ask, Force, Leaving, LeavingEntry, MOST, MOST_ASKS, MOST_BYTES, Operation, Outcome,
        Outcomes, Owning,
    },
};
use crate::{
    data::{Answer, Check, Step, StepResult, Transaction},
    ended::Ended,
    keys::{BucketKeys, NameKey, NameKeys, Phase, RequestKey},
    watched::{Event, Put},
};

impl Operation {
    /// The transaction. `again` says that it may have been done already.
    pub(crate) fn transaction(&self, keys: &NameKeys, again: bool) -> Transaction {
        match self {
            Self::Request(asks) => only_new(keys, asks, again, request(keys, asks)),
            Self::IfAvailable(asks) => {
                let Some(ask) = asks.first() else { return Transaction::default() };
                let mut then = vec![put(keys, Phase::Held, ask)];
                then.extend(count(keys, ask));
                let when = admits(keys, ask.mode, true);
                // The owner may not need the name.
                let transaction = Transaction { when, then, or_else: vec![whose(keys)] };
                only_new(keys, std::slice::from_ref(ask), again, transaction)
            }
            Self::Steal(ask, force) => {
                let asks = std::slice::from_ref(ask);
                let mut tried = only_new(keys, asks, again, steal(keys, ask, force));
                if again {
                    tried.when.push(Check::Absent(stolen(keys, ask)));
                }
                tried
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

    /// What the transaction of this connection, which is `me`, has done to the keys of a name.
    ///
    /// Owner keys of other connections are left out. Such a connection may have written requests with earlier
    /// places before it was robbed, and of these the watch tells first.
    pub(crate) fn changes(
        &self,
        (keys, of): (&BucketKeys, &NameKey),
        me: u128,
        again: bool,
        answer: &Answer,
    ) -> Vec<Event> {
        let transaction = self.transaction(&keys.name(of), again);
        let mut changes = changes(&transaction, keys, answer.revision, answer);
        changes.retain(|event| event.key.phase != Phase::Owned || event.key.request.owner == me);
        changes
    }

    /// The outcome of the transaction, which has changed these keys.
    pub(crate) fn read(&self, again: bool, answer: &Answer, changes: &[Event]) -> Outcomes {
        let made = changes.iter().filter_map(|event| {
            let made = event.put.as_ref()?.made;
            match event.key.phase {
                Phase::Held => Some((event.key.request, Outcome::Held(made))),
                Phase::Queued => Some((event.key.request, Outcome::Queued(made))),
                Phase::Owned => None,
            }
        });
        let mut outcomes = Outcomes { requests: made.collect(), ..Outcomes::default() };
        let mut got = answer.results.iter().filter_map(|result| match result {
            StepResult::Got(made) => Some(*made),
            _ => None,
        });
        match self {
            Self::Own(..) => {
                let (lock, owned) = (got.next().flatten(), got.next().flatten());
                outcomes.was_held = answer.succeeded || lock.is_some();
                outcomes.owned = if answer.succeeded { Some(answer.revision) } else { owned };
            }
            Self::Grant(_) | Self::Leave(_) if !answer.succeeded => {
                outcomes.requests = found(self.own().into_iter(), got);
            }
            Self::Request(_) | Self::IfAvailable(_) | Self::Steal(..) => {
                let mut asked = self.own();
                if let Some(inner) = inner(again, answer) {
                    let is_granted = matches!(outcomes.requests[..], [(_, Outcome::Held(_)), ..]);
                    let is_first = is_granted && !matches!(self, Self::Steal(..));
                    let mut asks = self.asks().iter();
                    outcomes.is_all =
                        is_first && asks.next().is_some_and(|ask| is_alone(ask, inner));
                    outcomes.owner = inner.results.iter().find_map(|result| match result {
                        StepResult::First(owner) => owner.clone(),
                        _ => None,
                    });
                } else {
                    // Of requests that do not wait, the first is granted, or none.
                    let most = if matches!(self, Self::Request(_)) { asked.len() } else { 1 };
                    outcomes.requests = found(asked.iter().take(most).copied(), got);
                }
                let refused = asked.drain(outcomes.requests.len()..);
                outcomes.requests.extend(refused.map(|request| (request, Outcome::Unavailable)));
            }
            _ => {}
        }
        outcomes
    }

    /// The requests that this operation makes.
    pub(crate) fn asks(&self) -> &[Ask] {
        match self {
            Self::Request(asks) | Self::IfAvailable(asks) => asks,
            Self::Steal(ask, _) => std::slice::from_ref(ask),
            _ => &[],
        }
    }

    /// The requests that this operation makes or ends. Except for the requests of a grant, all of
    /// them belong to this connection.
    pub(crate) fn own(&self) -> Vec<RequestKey> {
        match self {
            Self::Request(_) | Self::IfAvailable(_) | Self::Steal(..) => {
                self.asks().iter().map(|ask| ask.request).collect()
            }
            Self::Grant(entries) => entries.iter().map(|entry| entry.request).collect(),
            Self::Remove(ended) => ended.iter().map(|ended| ended.request).collect(),
            Self::HandOver(ended, _) | Self::Own(ended, _) => vec![ended.request],
            Self::Leave(leaving) => leaving.entries.iter().map(|entry| entry.ask.request).collect(),
        }
    }

    /// The requests and locks that this operation ends. Their keys are free afterwards.
    pub(crate) fn ends(&self) -> &[Ended] {
        match self {
            Self::HandOver(ended, _) | Self::Own(ended, _) => std::slice::from_ref(ended),
            Self::Remove(ended) => ended,
            _ => &[],
        }
    }
}

/// What a transaction has done to the keys of a bucket in this revision, according to its answer.
fn changes(of: &Transaction, keys: &BucketKeys, revision: i64, answer: &Answer) -> Vec<Event> {
    let mut changes: Vec<Event> = Vec::new();
    let change = |key: &[u8], put| Some(Event { key: keys.parse(key)?, revision, put });
    let steps = if answer.succeeded { &of.then } else { &of.or_else };
    for (nth, step) in steps.iter().enumerate() {
        match (step, answer.results.get(nth)) {
            (Step::Put { key, value, lease }, _) => {
                let put = Put { made: revision, lease: *lease, value: Arc::from(&**value) };
                changes.extend(change(key, Some(put)));
            }
            (Step::Delete(key), _) => changes.extend(change(key, None)),
            (Step::DeleteRange(..), Some(StepResult::Deleted(gone))) => {
                changes.extend(gone.iter().filter_map(|key| change(key, None)));
            }
            (Step::Within(inner), Some(StepResult::Within(answer))) => {
                changes.extend(self::changes(inner, keys, revision, answer));
            }
            // An earlier try may have made a key that this one has put again.
            (Step::Get(key), Some(StepResult::Got(Some(made)))) => {
                let key = keys.parse(key);
                let found = changes.iter_mut().find(|change| Some(&change.key) == key.as_ref());
                found.into_iter().flat_map(|of| &mut of.put).for_each(|put| put.made = *made);
            }
            _ => {}
        }
    }
    changes
}

/// The outcome of the transaction itself; `None` if it was nested in another one and was not done
/// this time.
fn inner(again: bool, answer: &Answer) -> Option<&Answer> {
    if !again {
        return Some(answer);
    }
    answer.results.iter().find_map(|result| match result {
        StepResult::Within(inner) => Some(inner),
        _ => None,
    })
}

/// What the transaction has found at the two keys of each request.
fn found(
    requests: impl Iterator<Item = RequestKey>,
    mut got: impl Iterator<Item = Option<i64>>,
) -> Vec<(RequestKey, Outcome)> {
    requests
        .map(|request| {
            let (held, queued) = (got.next().flatten(), got.next().flatten());
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
