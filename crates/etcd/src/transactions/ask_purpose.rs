//! What the owner of a name is asked for.

use crate::{
    data::{Check, KeyValue, Step, Transaction},
    values::Value,
};

/// What for the owner of a name is asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskPurpose {
    /// To have the name oneself.
    ToHave,
    /// To see who has it.
    ToSee,
}

impl AskPurpose {
    /// What is written so: larger for what says more.
    fn mark(self) -> u64 {
        match self {
            Self::ToSee => 1,
            Self::ToHave => 2,
        }
    }

    /// What an owner was asked for, by what it finds behind its key; `None` if nothing.
    pub(crate) fn of(value: &[u8]) -> Option<Self> {
        match Value::mark(value) {
            0 => None,
            1 => Some(Self::ToSee),
            _ => Some(Self::ToHave),
        }
    }

    /// Whether the owner is to be asked so, who was asked this before.
    pub(crate) fn says_more(self, owned: &KeyValue) -> bool {
        self.mark() > Value::mark(&owned.value)
    }
}

/// Asks the owner of a name for it, by what stands behind the key that says so.
pub(crate) fn ask_owner(owned: &KeyValue, purpose: AskPurpose) -> Transaction {
    let KeyValue { key, value, made, lease, .. } = owned;
    let (when, value) =
        (vec![Check::MadeIn(key.clone(), *made)], Value::marked(value, purpose.mark()));
    let then = vec![Step::Put { key: key.clone(), value, lease: *lease }];
    Transaction { when, then, or_else: Vec::new() }
}
