//! What is to be done to a name, and what came of it.

use navlock_core::Mode;

use crate::{
    clock::wall_millis,
    data::KeyValue,
    ended::Ended,
    keys::{Phase, RequestKey},
    mirror::Entry,
    values::Value,
};

/// How many operations etcd takes in a transaction, unless it is set otherwise: it counts the longest of
/// the checks and the two branches, and of a transaction within one that on top.
#[cfg(test)]
pub(super) const MOST_OPERATIONS: usize = 128;

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
