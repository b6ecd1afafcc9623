//! Fencing tokens. A token is the revision of a grant, and behind it a number that is counted
//! without the store.
//!
//! The owner of a name grants it in one revision, the one in which it began to own the name, as often as
//! there are numbers. Whatever the store orders comes before that revision or after it. So tokens grow from
//! grant to grant, whoever grants.

use navlock_engine::FencingToken;

/// How many bits of a token are counted. The bits before them are enough for 2^44 revisions: 55 years of
/// 10,000 a second.
const COUNTED: u32 = 20;

/// The last number that is counted within a revision.
pub(crate) const MOST: u64 = (1 << COUNTED) - 1;

/// The token of a lock that the store has granted in this revision.
pub(crate) fn token(revision: i64) -> FencingToken {
    counted(revision, 0)
}

/// The token of the nth grant, from 1 on, of a connection that owns a name since this revision.
pub(crate) fn counted(revision: i64, nth: u64) -> FencingToken {
    let revision = u64::try_from(revision).unwrap_or_default();
    FencingToken::new((revision << COUNTED) + nth.min(MOST))
}

/// The revision of a token.
pub(crate) fn revision(token: FencingToken) -> i64 {
    i64::try_from(token.get() >> COUNTED).unwrap_or(i64::MAX)
}

/// Whether the owner of the name has counted the token.
pub(crate) fn is_counted(token: FencingToken) -> bool {
    token.get() & MOST != 0
}

/// A grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Its token.
    pub(crate) token: FencingToken,
    /// The revision that has made the lock's key. Until that is known, the largest number.
    pub(crate) made: i64,
}

impl Grant {
    /// A grant by a transaction of this revision.
    pub(crate) fn at(revision: i64) -> Self {
        Self { token: token(revision), made: revision }
    }

    /// The grant of a key that was made in this revision and has this mark: the token of a lock that was granted
    /// before the key was written, and else 0.
    pub(crate) fn marked(made: i64, mark: u64) -> Self {
        if mark == 0 { Self::at(made) } else { Self { token: FencingToken::new(mark), made } }
    }

    /// A grant by the owner of the name, which the store does not know.
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
