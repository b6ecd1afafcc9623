//! What a [store of keys](crate::key_store) has and does: keys with revisions, leases, transactions, lists.
//!
//! This is plain data, so that the decisions (`keeper.rs` and below) can be tested without a
//! server. A store sends it to a real one.

/// A key that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Vec<u8>,
    /// The revision that made the key: the key was not there before.
    pub made: i64,
    /// The revision that wrote the key last, or deleted it.
    pub written: i64,
    /// The value.
    pub value: Vec<u8>,
    /// The lease with which it ends; 0 for none.
    pub lease: i64,
}

/// The end of the range of all keys that begin with this prefix: the least key that is greater than all of
/// them. A single zero byte means "no end".
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    match prefix.iter().rposition(|&byte| byte < u8::MAX) {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end
        }
        None => vec![0],
    }
}

/// Checks, the steps if all checks hold, and the steps if not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// What has to hold.
    pub when: Vec<Check>,
    /// What is done if all of it holds.
    pub then: Vec<Step>,
    /// What is done if not.
    pub or_else: Vec<Step>,
}

/// What a transaction can check before it does anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
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
pub enum Step {
    /// Puts a key. If there is no such lease, this step fails, and the whole transaction with it.
    Put {
        /// The key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
        /// The lease with which it ends; 0 for none.
        lease: i64,
    },
    /// Tells which revision made this key, if it is there.
    Get(Vec<u8>),
    /// Counts the keys of this range. Keys that earlier steps have put count as well.
    Count(Vec<u8>, Vec<u8>),
    /// Gets the first key of this range, with its value.
    First(Vec<u8>, Vec<u8>),
    /// Deletes this key, if it is there.
    Delete(Vec<u8>),
    /// Deletes the keys of this range, and tells which they were.
    DeleteRange(Vec<u8>, Vec<u8>),
    /// Does a transaction within this one. Its checks are made before anything is done.
    Within(Transaction),
}

/// The store that an answer comes from, and the time of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The store's revision when it answered.
    pub(crate) revision: i64,
    /// The number of the store.
    pub(crate) cluster: u64,
}

/// The outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The store's revision after the transaction.
    pub revision: i64,
    /// The number of the store.
    pub cluster: u64,
    /// Whether all checks held.
    pub succeeded: bool,
    /// The outcomes of its steps.
    pub results: Vec<StepResult>,
}

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepResult {
    /// The key was put.
    Done,
    /// The revision that made the key, if the key is there. This is the answer to a count and to a
    /// [`First`](Step::First) as well that find no key.
    Got(Option<i64>),
    /// So many keys, more than none, are in the range.
    Counted(i64),
    /// The first key of the range.
    First(Option<Box<KeyValue>>),
    /// These keys are gone.
    Deleted(Vec<Vec<u8>>),
    /// What came of the inner transaction.
    Within(Answer),
}

/// The keys of a range, at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The revision.
    pub revision: i64,
    /// The number of the store.
    pub cluster: u64,
    /// The keys, in their order.
    pub found: Vec<KeyValue>,
    /// How many more keys of the range there are.
    pub left_out: u64,
}

impl Answer {
    /// Where it comes from, and when it was made.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { revision: self.revision, cluster: self.cluster }
    }
}

impl Listing {
    /// Where it comes from, and when it was made.
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

#[cfg(test)]
mod tests {
    use super::prefix_end;

    #[test]
    fn a_range_ends_after_all_that_begins_with_the_prefix() {
        assert_eq!(prefix_end(b"a/"), b"a0");
        assert_eq!(prefix_end(b"a\xff\xff"), b"b");
        assert_eq!(prefix_end(b"\xff"), [0]);
    }
}
