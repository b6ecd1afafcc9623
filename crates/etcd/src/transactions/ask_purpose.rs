//! The purposes for which the owner of a name is asked.

use crate::{
    data::{Check, KeyValue, Step, Transaction},
    values::Value,
};

/// Why the owner of a name is asked to give it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskPurpose {
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
            Self::ToSee => 1,
            Self::ToHave => 2,
        }
    }

    /// The purpose for which an owner is asked, according to the value of its key; `None` if it is
    /// not asked.
    pub(crate) fn of(value: &[u8]) -> Option<Self> {
        match Value::mark(value) {
            0 => None,
            1 => Some(Self::ToSee),
            _ => Some(Self::ToHave),
        }
    }

    /// Whether this purpose asks the owner for more than its key asks already.
    pub(crate) fn says_more(self, owned: &KeyValue) -> bool {
        self.mark() > Value::mark(&owned.value)
    }
}

/// Asks the owner to give the name up, by a mark in the value of its key.
pub(crate) fn ask_owner(owned: &KeyValue, purpose: AskPurpose) -> Transaction {
    let KeyValue { key, value, made, lease, .. } = owned;
    let (when, value) =
        (vec![Check::MadeIn(key.clone(), *made)], Value::marked(value, purpose.mark()));
    let then = vec![Step::Put { key: key.clone(), value, lease: *lease }];
    Transaction { when, then, or_else: Vec::new() }
}
