//! The words of slots, as they were read at about one moment.

use std::collections::HashMap;

use navlock_delegation::Look;

/// The words of a bucket or of a name, at about one moment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Looks(pub(super) Vec<ReadWord>);

/// A word, when it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadWord {
    pub(super) key: usize,
    pub(super) look: Look,
    pub(super) owned: bool,
}

impl PartialEq for ReadWord {
    /// Whether nothing relevant has changed. For a lock that was recalled, the only relevant
    /// question is whether it is held.
    fn eq(&self, other: &Self) -> bool {
        let is_same = self.key == other.key && self.owned == other.owned;
        let both = (self.look, other.look);
        is_same && (both.0 == both.1 || !self.owned && both.0.is_held() == both.1.is_held())
    }
}

impl Eq for ReadWord {}

impl Looks {
    pub(in super::super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any of these locks was held by nobody.
    pub(in super::super) fn has_idle(&self) -> bool {
        self.0.iter().any(|seen| !seen.look.is_held() && !seen.look.is_lost())
    }

    /// Each word, by the [key](Delegation::key) of its lock.
    pub(in super::super) fn by_key(&self) -> HashMap<usize, Look> {
        self.0.iter().map(|seen| (seen.key, seen.look)).collect()
    }
}
