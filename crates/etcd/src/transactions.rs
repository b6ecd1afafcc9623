//! The transactions: every change to etcd's keys goes through one of these.
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
    admits, count, grant, hand_over, is_alone, is_long, leave, only_new, own, put, removals,
    request, steal, stolen, whose,
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
    data::{Answer, Check, StepResult, Transaction},
    ended::Ended,
    keys::{LockKey, NameKey, NameKeys, Phase, RequestKey},
    mirror::{Event, Put},
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

    /// The outcome of the transaction.
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
                let requests = leaving.entries.iter().map(|entry| (entry.phase, entry.ask.request));
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
            Self::IfAvailable(_) | Self::Steal(..) => {
                let Some((ask, rest)) = self.asks().split_first() else { return outcomes };
                let request = ask.request;
                let rest = rest.iter().map(|ask| (ask.request, Outcome::Unavailable));
                let Some(inner) = inner(again, answer) else {
                    outcomes.requests = found([request].into_iter(), answer);
                    outcomes.requests.extend(rest);
                    return outcomes;
                };
                let outcome =
                    if inner.succeeded { Outcome::Held(revision) } else { Outcome::Unavailable };
                outcomes.requests = [(request, outcome)].into_iter().chain(rest).collect();
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

    /// All keys of a name after this operation, if it has granted the first of its requests in this
    /// revision, and if nothing else was there.
    pub(crate) fn all_events(&self, name: &NameKey, revision: i64) -> Vec<Event> {
        let asks = match self {
            Self::Request(asks) => asks,
            _ => self.asks().get(..1).unwrap_or_default(),
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
