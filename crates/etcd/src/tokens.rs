//! Fencing tokens: the revision of a grant, and behind it what is counted without etcd.
//!
//! Who owns a name grants it in one revision, that in which the name became its own, as often as there
//! are numbers. Whatever etcd orders comes before that or after it, so a token grows from grant to grant,
//! whoever grants.

use navlock_engine::FencingToken;

/// How many bits of a token are counted. Those before them are enough for 2^44 revisions: 55 years of
/// 10,000 a second.
const COUNTED: u32 = 20;

/// The last number that is counted within a revision.
pub(crate) const MOST: u64 = (1 << COUNTED) - 1;

/// The token of what etcd has granted in this revision.
pub(crate) fn token(revision: i64) -> FencingToken {
    counted(revision, 0)
}

/// The token of the nth grant of who owns a name since this revision, from 1 on.
pub(crate) fn counted(revision: i64, nth: u64) -> FencingToken {
    let revision = u64::try_from(revision).unwrap_or_default();
    FencingToken::new((revision << COUNTED) + nth.min(MOST))
}

/// The revision of a token.
pub(crate) fn revision(token: FencingToken) -> i64 {
    i64::try_from(token.get() >> COUNTED).unwrap_or(i64::MAX)
}

/// Whether it was counted by who owned the name.
pub(crate) fn is_counted(token: FencingToken) -> bool {
    token.get() & MOST != 0
}

/// A grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) token: FencingToken,
    /// The revision that has made the lock's key; the largest there is until that is known.
    pub(crate) made: i64,
}

impl Grant {
    /// By a transaction of this revision.
    pub(crate) fn at(revision: i64) -> Self {
        Self { token: token(revision), made: revision }
    }

    /// The same of a key with this mark (see [`Value`](crate::values::Value)): it may have been granted
    /// before it was written.
    pub(crate) fn marked(made: i64, mark: u64) -> Self {
        if mark == 0 { Self::at(made) } else { Self { token: FencingToken::new(mark), made } }
    }

    /// By who owns the name: etcd does not know of it.
    pub(crate) fn counted(revision: i64, nth: u64) -> Self {
        Self { token: counted(revision, nth), made: i64::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_grow_with_the_revision_and_within_it() {
        let in_order = [
            token(1),
            counted(1, 1),
            counted(1, MOST),
            counted(1, MOST + 7),
            token(2),
            token((1 << 43) - 1),
            counted((1 << 43) - 1, MOST),
        ];
        assert!(in_order.is_sorted());
        assert_eq!(in_order.map(revision)[1..5], [1, 1, 1, 2]);
        assert_eq!(in_order.map(is_counted)[..5], [false, true, true, true, false]);
    }
}
