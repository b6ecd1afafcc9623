//! Etcd's data model, as far as it is used here: keys, leases, transactions, lists.
//!
//! Plain data, so that what is decided (`keeper.rs` and below) can be tried without a server;
//! `calls.rs` speaks it to a real one.

/// A key with what stands behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyValue {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// The revision that made it: its "create revision".
    pub(crate) made: i64,
    /// The revision that wrote it last: its "mod revision".
    pub(crate) written: i64,
    pub(crate) lease: i64,
}

/// Checks, and what is done if all of them hold, or else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) when: Vec<Check>,
    pub(crate) then: Vec<Step>,
    pub(crate) or_else: Vec<Step>,
}

/// What a transaction can ask before it does anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// There is no such key.
    Absent(Vec<u8>),
    /// There is such a key.
    Present(Vec<u8>),
    /// There is such a key, and this revision made it.
    MadeIn(Vec<u8>, i64),
    /// No key is in this range, from the first on and before the second.
    Empty(Vec<u8>, Vec<u8>),
    /// No key that is in this range was made after this revision.
    NoneAfter(Vec<u8>, Vec<u8>, i64),
}

/// What a transaction can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Fails, and all the transaction with it, if there is no such lease.
    Put {
        key: Vec<u8>,
        value: Vec<u8>,
        lease: i64,
    },
    Get(Vec<u8>),
    /// Asks how many keys are in this range, with those that were put before.
    Count(Vec<u8>, Vec<u8>),
    /// Asks for the first key of this range, with what stands behind it.
    First(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    /// Deletes what is in this range, and tells the keys.
    DeleteRange(Vec<u8>, Vec<u8>),
    Within(Transaction),
}

/// Where an answer comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Etcd's revision when it answered.
    pub(crate) revision: i64,
    pub(crate) cluster: u64,
}

/// What came of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// That of etcd after it.
    pub(crate) revision: i64,
    pub(crate) cluster: u64,
    /// Whether all checks held.
    pub(crate) succeeded: bool,
    /// What came of its steps.
    pub(crate) results: Vec<StepResult>,
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StepResult {
    Done,
    /// The revision that made the key, if it is there.
    Got(Option<i64>),
    Counted(i64),
    First(Option<Box<KeyValue>>),
    /// These are gone.
    Deleted(Vec<Vec<u8>>),
    Within(Answer),
}

/// The keys of a range, at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) revision: i64,
    pub(crate) cluster: u64,
    pub(crate) found: Vec<KeyValue>,
    /// How many there are after those.
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

/// The end of the range of all keys that begin with this.
pub(crate) fn end_of_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return end;
        }
    }
    // All keys: etcd's word for it.
    vec![0]
}

/// Removes these, if they are what was seen.
pub(crate) fn removal(found: &[KeyValue]) -> Transaction {
    Transaction {
        when: found.iter().map(|kv| Check::MadeIn(kv.key.clone(), kv.made)).collect(),
        then: found.iter().map(|kv| Step::Delete(kv.key.clone())).collect(),
        or_else: Vec::new(),
    }
}
