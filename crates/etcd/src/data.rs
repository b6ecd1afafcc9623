//! Etcd's data model, as far as it is used here: keys, leases, transactions, lists.
//!
//! This is plain data, so that the decisions (`keeper.rs` and below) can be tested without a
//! server. `calls.rs` sends it to a real server.

pub(crate) use navlock_etcd_client::{KeyValue, prefix_end};

/// Checks, the steps if all checks hold, and the steps if not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) when: Vec<Check>,
    pub(crate) then: Vec<Step>,
    pub(crate) or_else: Vec<Step>,
}

/// What a transaction can check before it does anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// There is no such key.
    Absent(Vec<u8>),
    /// There is such a key.
    Present(Vec<u8>),
    /// There is such a key, and this revision made it.
    MadeIn(Vec<u8>, i64),
    /// There is such a key, and this revision wrote it last.
    WrittenIn(Vec<u8>, i64),
    /// No key is in this range, which begins with the first key and ends before the second.
    Empty(Vec<u8>, Vec<u8>),
    /// No key in this range was made after this revision.
    NoneAfter(Vec<u8>, Vec<u8>, i64),
}

/// A step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Puts a key. If there is no such lease, this step fails, and the whole transaction with it.
    Put {
        key: Vec<u8>,
        value: Vec<u8>,
        lease: i64,
    },
    Get(Vec<u8>),
    /// Counts the keys of this range. Keys that earlier steps have put count as well.
    Count(Vec<u8>, Vec<u8>),
    /// Gets the first key of this range, with its value.
    First(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    /// Deletes the keys of this range, and tells which they were.
    DeleteRange(Vec<u8>, Vec<u8>),
    Within(Transaction),
}

/// The etcd that an answer comes from, and the time of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Etcd's revision when it answered.
    pub(crate) revision: i64,
    pub(crate) cluster: u64,
}

/// The outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Etcd's revision after the transaction.
    pub(crate) revision: i64,
    pub(crate) cluster: u64,
    /// Whether all checks held.
    pub(crate) succeeded: bool,
    /// The outcomes of its steps.
    pub(crate) results: Vec<StepResult>,
}

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StepResult {
    Done,
    /// The revision that made the key, if the key is there.
    Got(Option<i64>),
    Counted(i64),
    First(Option<Box<KeyValue>>),
    /// These keys are gone.
    Deleted(Vec<Vec<u8>>),
    Within(Answer),
}

/// The keys of a range, at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) revision: i64,
    pub(crate) cluster: u64,
    pub(crate) found: Vec<KeyValue>,
    /// How many more keys of the range there are.
    pub(crate) left_out: u64,
}

impl Answer {
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { revision: self.revision, cluster: self.cluster }
    }
}

impl Listing {
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { revision: self.revision, cluster: self.cluster }
    }
}

/// Removes these keys, if they are as they were seen.
pub(crate) fn removal(found: &[KeyValue]) -> Transaction {
    Transaction {
        when: found.iter().map(|kv| Check::MadeIn(kv.key.clone(), kv.made)).collect(),
        then: found.iter().map(|kv| Step::Delete(kv.key.clone())).collect(),
        or_else: Vec::new(),
    }
}
