//! What has to be done to a name, and the outcome.

use std::time::Duration;

use navlock_core::Mode;
use serde::{Deserialize, Serialize};

use crate::{
    clock::wall_millis,
    data::KeyValue,
    ended::Ended,
    keys::{Phase, RequestKey},
    mirror::Entry,
    values::Value,
};

/// How many operations etcd takes in a transaction, unless it is configured otherwise. Etcd counts
/// the longest of three lists, the checks and the two branches, and adds the operations of a nested
/// transaction.
#[cfg(test)]
pub(super) const MOST_OPERATIONS: usize = 128;

/// How many requests are granted or ended in one transaction. Each needs two operations.
pub(crate) const MOST: usize = 60;

/// How many requests are made in one transaction. If they may have been made already, both keys of
/// each are checked before the request is put.
pub(crate) const MOST_ASKS: usize = 42;

/// The bit of the place in an owner key that says that the name is owned for a run alone.
const RUN: u64 = 1;

/// The most bytes of values that a transaction carries in both of its branches.
pub(crate) const MOST_BYTES: usize = 256 << 10;

/// A request that has to be written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub(crate) request: RequestKey,
    pub(crate) mode: Mode,
    pub(crate) lease: i64,
    pub(crate) value: Vec<u8>,
}

/// The owner key that has to be written.
#[derive(Clone, Debug)]
pub(crate) struct Owning {
    pub(crate) owner: u128,
    pub(crate) lease: i64,
    pub(crate) value: Vec<u8>,
    /// The last revision that was heard of before.
    pub(crate) after: i64,
    /// The next requests of the queue, if the name is to be owned for these alone. After them,
    /// the store's queue decides again. Empty if the name is to be owned for all requests of this
    /// connection.
    pub(crate) run: Vec<Entry>,
}

impl Owning {
    /// This owner key, but for a run of these requests alone.
    pub(crate) fn for_run(self, run: Vec<Entry>) -> Self {
        let place = Value::place(&self.value) | RUN;
        let value = Value::restamp(&self.value, wall_millis(), place);
        Self { value, run, ..self }
    }

    /// Whether a name is owned for a run alone, according to the value of its owner key. As long as
    /// that is so, somebody holds the name.
    pub(crate) fn is_for_run(value: &[u8]) -> bool {
        Value::place(value) & RUN != 0
    }

    /// The place in the owner key of a name. No other key stands in its range, so it needs none.
    /// Instead, this tells how long the owner's lease lasts each time that it is renewed.
    pub(crate) fn place(lasts: Duration) -> u64 {
        u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX / 2) << 1
    }

    /// How long the owner's lease lasts each time that it is renewed, according to the value of the
    /// owner key; `None` if navlock has not written the value.
    pub(crate) fn lasts(value: &[u8]) -> Option<Duration> {
        let millis = Value::place(value) >> 1;
        (millis > 0).then(|| Duration::from_millis(millis))
    }
}

/// A name that has to be given up.
#[derive(Clone, Debug)]
pub(crate) struct Leaving {
    pub(crate) owner: u128,
    /// The revision since which the name is owned.
    pub(crate) made: i64,
    /// The locks and requests to write in this transaction: some of them, or the last ones.
    pub(crate) entries: Vec<LeavingEntry>,
    pub(crate) is_last: bool,
    /// The requests that wait for the name in the store, if there is nothing to write.
    pub(crate) successors: Vec<Entry>,
}

/// A lock or request of the owner of a name that has to be written.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LeavingEntry {
    pub(crate) phase: Phase,
    pub(crate) ask: Ask,
}

/// What becomes of another machine's ownership of a name that is stolen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Force {
    /// Nobody is robbed who owns the name.
    Waits,
    /// The owner of this key is asked to give up the name.
    Asks(Box<KeyValue>),
    /// The owner of this key has no right to grant the name any more, and is robbed of the name.
    Robs(Box<KeyValue>),
}

/// Something that has to be done to one name.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// Makes requests that wait for their turn. The first is granted if it can be; all others
    /// queue.
    Request(Vec<Ask>),
    /// Makes requests that do not wait. They never leave anything in the queue. All of them are exclusive, or
    /// there is one: so the first is granted, or none.
    IfAvailable(Vec<Ask>),
    Steal(Ask, Force),
    /// Grants waiting requests, of any connection.
    Grant(Vec<Entry>),
    /// Ends requests and locks.
    Remove(Vec<Ended>),
    /// Releases a lock, and grants the next requests in the same revision.
    HandOver(Ended, Vec<Entry>),
    /// Releases the last lock, and makes this connection the owner of the name: for all of its
    /// waiting requests, if no others wait, or for those that are next.
    Own(Ended, Owning),
    /// Gives up a name that this connection owns.
    Leave(Leaving),
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The request was granted in this revision.
    Held(i64),
    /// The request waits, since this revision or an earlier one.
    Queued(i64),
    /// The request could not be granted at once.
    Unavailable,
    /// The request is not there: it was granted, and somebody else has ended it.
    Gone,
}

/// What has become of an operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcomes {
    pub(crate) requests: Vec<(RequestKey, Outcome)>,
    /// Whether the name has no other keys at this revision.
    pub(crate) is_all: bool,
    /// The revision since which this connection owns the name.
    pub(crate) owned: Option<i64>,
    /// Whether the lock that had to be released in exchange was still there, so that no earlier try
    /// had done anything.
    pub(crate) was_held: bool,
    /// The owner key of another connection, which has to be asked to give up the name.
    pub(crate) owner: Option<Box<KeyValue>>,
}
