//! What a store shows of its locks and requests.

use navlock_core::{Error, Inspected, LockManagerSnapshot};

/// The held locks and pending requests, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryResult {
    /// The locks.
    pub(crate) held: Vec<QueryEntry>,
    /// The requests that wait.
    pub(crate) pending: Vec<QueryEntry>,
    /// Names whose owners were not asked what they hold.
    pub(crate) owned: Vec<QueryEntry>,
    /// How many locks and requests are left out.
    pub(crate) left_out: u64,
}

/// A lock or request.
#[derive(Clone, Debug)]
pub(crate) struct QueryEntry {
    /// What is shown of it.
    pub(crate) inspected: Inspected,
    /// The lease, if it is another connection's, or else 0.
    pub(crate) lease: i64,
}

/// Who is asked what is held of names that are owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asks {
    /// Nobody: the names are shown as owned.
    Nobody,
    /// This connection is, which costs nothing. Others are not, because each question is two writes.
    Ourselves,
    /// All owners.
    Owners,
}

impl QueryResult {
    /// The result as a snapshot.
    ///
    /// DEVIATION: there is no snapshot of very many locks and requests. A snapshot has no place to say
    /// that some are left out, and no bound.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if some are left out.
    pub(crate) fn into_snapshot(self) -> Result<LockManagerSnapshot, Error> {
        let shown = self.held.len() + self.pending.len();
        if self.left_out > 0 {
            let all = u64::try_from(shown).unwrap_or(u64::MAX).saturating_add(self.left_out);
            return Err(Error::refused(format!(
                "the bucket has {all} locks and requests, and a snapshot tells of about {shown} at most; \
                 use several buckets, or look at one name with 'navlock query NAME'"
            )));
        }
        let plain = |all: Vec<QueryEntry>| all.into_iter().map(|one| one.inspected.lock).collect();
        Ok(LockManagerSnapshot::new(plain(self.held), plain(self.pending)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_there_is_no_snapshot_and_what_can_be_done_is_said() {
        assert_eq!(QueryResult::default().into_snapshot(), Ok(LockManagerSnapshot::default()));
        let seen = QueryResult { left_out: u64::MAX, ..QueryResult::default() };
        let Err(Error::Refused(why)) = seen.into_snapshot() else { panic!("some are left out") };
        assert!(
            why.message()
                .contains("use several buckets, or look at one name with 'navlock query NAME'")
        );
    }
}
