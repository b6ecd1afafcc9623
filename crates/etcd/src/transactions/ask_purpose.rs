//! The purposes for which the owner of a name is asked.

use crate::{
    data::{Check, KeyValue, Step, Transaction},
    keys::BucketKeys,
    mirror::Entry,
    values::Value,
};

/// Why the owner of a name is asked to give it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskPurpose {
    /// A request that does not wait wants the name, if nobody holds it exclusively. An owner whose agent
    /// does takes the mark back, and goes on owning the name.
    IfFree,
    /// A request wants the name.
    ToHave,
    /// A caller wants to see who holds the name.
    ToSee,
}

impl AskPurpose {
    /// The mark that is written for this purpose. The purpose that asks for more has the larger
    /// mark.
    fn mark(self) -> u64 {
        match self {
            Self::IfFree => 1,
            Self::ToSee => 2,
            Self::ToHave => 3,
        }
    }

    /// The purpose for which an owner is asked, according to the value of its key; `None` if it is
    /// not asked.
    pub(crate) fn of(value: &[u8]) -> Option<Self> {
        match Value::mark(value) {
            0 => None,
            1 => Some(Self::IfFree),
            2 => Some(Self::ToSee),
            _ => Some(Self::ToHave),
        }
    }

    /// Whether this purpose asks the owner for more than its key asks already.
    pub(crate) fn says_more(self, owned: &KeyValue) -> bool {
        self.mark() > Value::mark(&owned.value)
    }
}

/// Asks the owner to give the name up, by a mark in the value of its key. If the key was written since,
/// this does nothing: whoever asks looks again in any case.
///
/// Whoever wants the name asks by the owner's mailbox as well, in the same revision. The owner reads
/// it each time that it renews its lease, and has no right to grant the name for longer than that.
pub(crate) fn ask_owner(owned: &KeyValue, purpose: AskPurpose) -> Transaction {
    let KeyValue { key, value, written, lease, .. } = owned;
    let mut asks = marked(key, (value, *written, *lease), purpose.mark());
    if purpose == AskPurpose::ToHave {
        let (key, value) = (BucketKeys::asked(key), Vec::new());
        asks.then.push(Step::Put { key, value, lease: *lease });
    }
    asks
}

/// Takes back the mark of a request that does not wait: it cannot have the name, which somebody holds.
/// The answer is to the questions up to the one that was seen, and does nothing if there is a later one.
pub(crate) fn say_held(key: &[u8], owned: &Entry) -> Transaction {
    marked(key, (&owned.value, owned.written, owned.lease), 0)
}

fn marked(key: &[u8], (value, written, lease): (&[u8], i64, i64), mark: u64) -> Transaction {
    Transaction {
        when: vec![Check::WrittenIn(key.to_vec(), written)],
        then: vec![Step::Put { key: key.to_vec(), value: Value::marked(value, mark), lease }],
        or_else: Vec::new(),
    }
}
