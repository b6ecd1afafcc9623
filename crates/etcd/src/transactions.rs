//! The transactions: all that changes anything in etcd.
//!
//! Each looks again at what it depends on, and each can be done again when its outcome is not
//! known: a request has a key of its own, so whether it was made can be seen. That a request is
//! first in its queue is known from the mirror and stays so (see there); that it still waits, and
//! that the held locks admit it, is asked here.
//!
//! A range of which no key exists compares as one key of revision 0: equal to 0 means that it is
//! empty. A put under a lease that has ended fails with its whole transaction, so nobody is granted
//! anything after its death.

use etcd_client::{
    Compare, CompareOp, DeleteOptions, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse,
};
use navlock_core::Mode;

use crate::{
    clock::wall_millis,
    keys::{NameKeys, Phase, RequestKey},
    mirror::Entry,
    values::Value,
};

/// How many requests go into one transaction: etcd takes 128 operations, of which each needs two.
pub(crate) const MOST: usize = 60;

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

/// Something to be done to one name.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// Requests that wait for their turn: the first is granted if it can be, all others queue.
    Request(Vec<Ask>),
    /// A request that does not wait. It never leaves anything in the queue.
    IfAvailable(Ask),
    Steal(Ask),
    /// Grants what waits.
    Grant(Vec<Entry>),
    /// Ends requests and locks, whichever they are by now.
    Remove(Vec<(RequestKey, Mode)>),
    /// Releases a lock, and grants the next in the same revision.
    HandOver(RequestKey, Mode, Vec<Entry>),
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
    /// The keys of the locks that were stolen.
    pub(crate) victims: Vec<Vec<u8>>,
}

impl Operation {
    /// The transaction. `again` if it may have been done already.
    pub(crate) fn transaction(&self, keys: &NameKeys, again: bool) -> Txn {
        match self {
            Self::Request(asks) => only_new(keys, asks, again, request(keys, asks)),
            Self::IfAvailable(ask) => {
                let put = put(keys, Phase::Held, ask);
                let txn = Txn::new().when(admits(keys, ask.mode, true)).and_then([put]);
                only_new(keys, std::slice::from_ref(ask), again, txn)
            }
            Self::Steal(ask) => only_new(keys, std::slice::from_ref(ask), again, steal(keys, ask)),
            Self::Grant(entries) => grant(keys, entries),
            Self::Remove(ended) => Txn::new().and_then(removals(keys, ended)),
            Self::HandOver(from, mode, heirs) => hand_over(keys, *from, *mode, heirs),
        }
    }

    /// What came of the transaction.
    pub(crate) fn read(&self, again: bool, response: &TxnResponse) -> Outcomes {
        let revision = response.header().map_or(0, etcd_client::ResponseHeader::revision);
        let mut outcomes = Outcomes::default();
        match self {
            Self::Remove(_) | Self::HandOver(..) => {}
            Self::Grant(entries) => {
                let requests = entries.iter().map(|entry| entry.request);
                outcomes.requests = if response.succeeded() {
                    requests.map(|request| (request, Outcome::Held(revision))).collect()
                } else {
                    found(requests, response)
                };
            }
            Self::Request(asks) => {
                let requests = asks.iter().map(|ask| ask.request);
                if again && !response.succeeded() {
                    outcomes.requests = found(requests, response);
                    return outcomes;
                }
                let granted = inner(again, response).is_some_and(|inner| inner.succeeded());
                let at_once = granted && !is_long(asks);
                let outcome = |nth| match nth {
                    0 if at_once => Outcome::Held(revision),
                    _ => Outcome::Queued(revision),
                };
                outcomes.requests =
                    requests.enumerate().map(|(nth, request)| (request, outcome(nth))).collect();
            }
            Self::IfAvailable(ask) | Self::Steal(ask) => {
                let request = ask.request;
                if again && !response.succeeded() {
                    outcomes.requests = found([request].into_iter(), response);
                    return outcomes;
                }
                let inner = inner(again, response);
                let held = inner.as_ref().is_some_and(TxnResponse::succeeded);
                let outcome = if held { Outcome::Held(revision) } else { Outcome::Unavailable };
                outcomes.requests = vec![(request, outcome)];
                for answer in inner.iter().flat_map(TxnResponse::op_responses) {
                    if let TxnOpResponse::Delete(deleted) = answer {
                        let victims = deleted.prev_kvs().iter().map(|kv| kv.key().to_vec());
                        outcomes.victims.extend(victims);
                    }
                }
            }
        }
        outcomes
    }
}

/// Whether the names in the values are too long to be sent in both branches.
fn is_long(asks: &[Ask]) -> bool {
    asks.iter().map(|ask| ask.value.len()).sum::<usize>() > MOST_BYTES
}

fn empty(prefix: Vec<u8>) -> Compare {
    Compare::create_revision(prefix, CompareOp::Equal, 0).with_prefix()
}

fn absent(key: Vec<u8>) -> Compare {
    Compare::create_revision(key, CompareOp::Equal, 0)
}

/// Whether the held locks, and the queue for who is not in it, admit a lock.
fn admits(keys: &NameKeys, mode: Mode, is_new: bool) -> Vec<Compare> {
    let mut admits = vec![empty(match mode {
        Mode::Exclusive => keys.held(),
        Mode::Shared => keys.held_exclusive(),
    })];
    if is_new {
        admits.push(empty(keys.queue()));
    }
    admits
}

fn put(keys: &NameKeys, phase: Phase, ask: &Ask) -> TxnOp {
    let options = PutOptions::new().with_lease(ask.lease);
    let key = keys.request(phase, ask.mode, ask.request);
    TxnOp::put(key, ask.value.clone(), Some(options))
}

fn request(keys: &NameKeys, asks: &[Ask]) -> Txn {
    let queue = |ask| put(keys, Phase::Queued, ask);
    let all: Vec<_> = asks.iter().map(queue).collect();
    let Some((first, rest)) = asks.split_first() else {
        return Txn::new();
    };
    if is_long(asks) {
        // Its own process grants it next, if it can be.
        return Txn::new().and_then(all);
    }
    let granted: Vec<_> =
        [put(keys, Phase::Held, first)].into_iter().chain(rest.iter().map(queue)).collect();
    Txn::new().when(admits(keys, first.mode, true)).and_then(granted).or_else(all)
}

/// Everybody who holds goes, whoever it is. A range must not have in it what is put.
fn steal(keys: &NameKeys, ask: &Ask) -> Txn {
    let own = keys.request(Phase::Held, ask.mode, ask.request);
    let [before, after] = others(keys, &own).map(|(start, end)| {
        TxnOp::delete(start, Some(DeleteOptions::new().with_range(end).with_prev_key()))
    });
    Txn::new().and_then([before, after, put(keys, Phase::Held, ask)])
}

/// The ranges of all held locks but this.
fn others(keys: &NameKeys, own: &[u8]) -> [(Vec<u8>, Vec<u8>); 2] {
    let after = [own, &[0]].concat();
    [(keys.held(), own.to_vec()), (after, keys.end_of_held())]
}

/// The same, if none of this was asked for yet; else looks for what became of it.
///
/// A late first try may still come after this one. Then a request stands in the queue of which
/// nobody knows, until its owner sees it there and removes it.
fn only_new(keys: &NameKeys, asks: &[Ask], again: bool, txn: Txn) -> Txn {
    if !again {
        return txn;
    }
    let both = |ask: &Ask| {
        [Phase::Held, Phase::Queued].map(|phase| keys.request(phase, ask.mode, ask.request))
    };
    let all: Vec<_> = asks.iter().flat_map(both).collect();
    Txn::new()
        .when(all.iter().cloned().map(absent).collect::<Vec<_>>())
        .and_then([TxnOp::txn(txn)])
        .or_else(all.into_iter().map(|key| TxnOp::get(key, None)).collect::<Vec<_>>())
}

/// Turns a request into a lock. The key of the one goes in the revision that makes the other's.
fn promote(keys: &NameKeys, entry: &Entry) -> [TxnOp; 2] {
    let &Entry { request, mode, lease, ref value, .. } = entry;
    let value = Value::restamp(value, wall_millis());
    [
        TxnOp::delete(keys.request(Phase::Queued, mode, request), None),
        put(keys, Phase::Held, &Ask { request, mode, lease, value }),
    ]
}

/// Whether it still waits.
fn waits(keys: &NameKeys, entry: &Entry) -> Compare {
    let key = keys.request(Phase::Queued, entry.mode, entry.request);
    Compare::create_revision(key, CompareOp::Equal, entry.made)
}

fn grant(keys: &NameKeys, entries: &[Entry]) -> Txn {
    let mode = entries.first().map_or(Mode::Exclusive, |entry| entry.mode);
    let mut when: Vec<_> = entries.iter().map(|entry| waits(keys, entry)).collect();
    when.extend(admits(keys, mode, false));
    let both = |entry: &Entry| {
        [Phase::Held, Phase::Queued].map(|phase| keys.request(phase, entry.mode, entry.request))
    };
    let look: Vec<_> = entries.iter().flat_map(both).map(|key| TxnOp::get(key, None)).collect();
    let then: Vec<_> = entries.iter().flat_map(|entry| promote(keys, entry)).collect();
    Txn::new().when(when).and_then(then).or_else(look)
}

fn removals(keys: &NameKeys, ended: &[(RequestKey, Mode)]) -> Vec<TxnOp> {
    let both = |&(request, mode)| {
        [Phase::Held, Phase::Queued].map(|phase| keys.request(phase, mode, request))
    };
    ended.iter().flat_map(both).map(|key| TxnOp::delete(key, None)).collect()
}

fn hand_over(keys: &NameKeys, from: RequestKey, mode: Mode, heirs: &[Entry]) -> Txn {
    let own = keys.request(Phase::Held, mode, from);
    let mut when: Vec<_> = heirs.iter().map(|heir| waits(keys, heir)).collect();
    when.push(Compare::create_revision(own.clone(), CompareOp::Greater, 0));
    let nobody = |(start, end): (Vec<u8>, Vec<u8>)| absent(start).with_range(end);
    when.extend(others(keys, &own).map(nobody));
    let mut then = vec![TxnOp::delete(own, None)];
    then.extend(heirs.iter().flat_map(|heir| promote(keys, heir)));
    Txn::new().when(when).and_then(then).or_else(removals(keys, &[(from, mode)]))
}

/// The transaction within, if it was wrapped.
fn inner(again: bool, response: &TxnResponse) -> Option<TxnResponse> {
    if !again {
        return Some(response.clone());
    }
    response.op_responses().into_iter().find_map(|answer| match answer {
        TxnOpResponse::Txn(inner) => Some(inner),
        _ => None,
    })
}

/// What the gets of both keys of each request say.
fn found(
    requests: impl Iterator<Item = RequestKey>,
    response: &TxnResponse,
) -> Vec<(RequestKey, Outcome)> {
    let mut answers = response.op_responses().into_iter().map(|answer| match answer {
        TxnOpResponse::Get(got) => got.kvs().first().map(etcd_client::KeyValue::create_revision),
        _ => None,
    });
    requests
        .map(|request| {
            let (held, queued) = (answers.next().flatten(), answers.next().flatten());
            let outcome = match (held, queued) {
                (Some(made), _) => Outcome::Held(made),
                (None, Some(made)) => Outcome::Queued(made),
                (None, None) => Outcome::Gone,
            };
            (request, outcome)
        })
        .collect()
}
