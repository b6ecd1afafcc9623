//! The purposes for which the owner of a name is asked, and its answers.

use navlock_core::Mode;

use crate::{
    data::{Check, KeyValue, Step, Transaction},
    keys::BucketKeys,
    mirror::Entry,
    values::Value,
};

/// Why the owner of a name is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskPurpose {
    /// A request of this mode that does not wait wants the name, if the locks there admit it. An owner whose
    /// agents hold the name otherwise takes the mark back, and goes on owning the name.
    IfFree(Mode),
    /// A caller wants to see who holds the name and who waits for it. The owner says so in the value of its
    /// key, and goes on owning the name.
    ToSee,
    /// A caller wants to see that of all names of the bucket that the owner has.
    ToSeeAll,
    /// A request wants the name.
    ToHave,
}

/// The mark of an owner that has answered that its agents share the name. An owner whose agent holds it
/// exclusively leaves no mark.
const SHARED: u64 = 16;

/// The mark of an owner that has said who holds the name. It says nothing to those who do not wait.
const SAID: u64 = 17;

impl AskPurpose {
    /// The mark that is written for this purpose. The purpose that asks for more has the larger
    /// mark.
    fn mark(self) -> u64 {
        match self {
            Self::IfFree(Mode::Exclusive) => 1,
            Self::IfFree(Mode::Shared) => 2,
            Self::ToSee => 3,
            Self::ToSeeAll => 4,
            Self::ToHave => 5,
        }
    }

    /// The purpose for which an owner is asked, according to the value of its key; `None` if it is
    /// not asked.
    pub(crate) fn of(value: &[u8]) -> Option<Self> {
        match Value::mark(value) {
            0 | SHARED | SAID => None,
            1 => Some(Self::IfFree(Mode::Exclusive)),
            2 => Some(Self::IfFree(Mode::Shared)),
            3 => Some(Self::ToSee),
            4 => Some(Self::ToSeeAll),
            _ => Some(Self::ToHave),
        }
    }

    /// Whether the owner of this value has answered a caller that wants to see.
    pub(crate) fn is_said(value: &[u8]) -> bool {
        Value::mark(value) == SAID
    }

    /// Whether this purpose asks the owner for more than its key asks already.
    pub(crate) fn says_more(self, owned: &KeyValue) -> bool {
        self.mark() > Self::of(&owned.value).map_or(0, Self::mark)
    }

    /// Whether the owner of this value has answered a request of this mode that does not wait: the name is
    /// held in a way that keeps the request out.
    pub(crate) fn is_refused(value: &[u8], mode: Mode) -> bool {
        let mark = Value::mark(value);
        mark == 0 || mark == SHARED && mode == Mode::Exclusive
    }
}

/// Asks the owner, by a mark in the value of its key. If the key was written since,
/// this does nothing: whoever asks looks again in any case.
///
/// Whoever wants the name asks by the owner's mailbox as well, in the same revision. The owner reads
/// it each time that it renews its lease, and has no right to grant the name for longer than that.
pub(crate) fn ask_owner(owned: &KeyValue, purpose: AskPurpose) -> Transaction {
    let KeyValue { key, value, written, lease, .. } = owned;
    let mut asks = marked(key, (value, *written, *lease), purpose.mark(), &[]);
    if purpose == AskPurpose::ToHave {
        let (key, value) = (BucketKeys::asked(key), Vec::new());
        asks.then.push(Step::Put { key, value, lease: *lease });
    }
    asks
}

/// Takes back the mark of a request that does not wait: it cannot have the name, which is held in this mode.
/// The answer is to the questions up to the one that was seen, and does nothing if there is a later one.
pub(crate) fn say_held(key: &[u8], owned: &Entry, held: Mode) -> Transaction {
    let mark = if held == Mode::Shared { SHARED } else { 0 };
    marked(key, (&owned.value, owned.written, owned.lease), mark, &[])
}

/// Answers the question that was seen: takes back its mark, and appends what the owner knows. The next mark
/// takes that away.
pub(crate) fn say_who(key: &[u8], owned: &Entry, said: &[u8]) -> Transaction {
    marked(key, (&owned.value, owned.written, owned.lease), SAID, said)
}

fn marked(
    key: &[u8],
    (value, written, lease): (&[u8], i64, i64),
    mark: u64,
    said: &[u8],
) -> Transaction {
    let value = [&*Value::marked(Value::split(value).0, mark), said].concat();
    Transaction {
        when: vec![Check::WrittenIn(key.to_vec(), written)],
        then: vec![Step::Put { key: key.to_vec(), value, lease }],
        or_else: Vec::new(),
    }
}
