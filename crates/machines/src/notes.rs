//! What is said of agents, requests and locks, and written beside them for people and for lookers.

use navlock_core::{
    AgentInfo,
    host::clip_bytes,
    look::{LockId, Patience},
};
use serde::{Deserialize, Serialize};

use crate::names::NameKey;

/// What is said of a request that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RequestNotes {
    /// How long the request waits.
    pub(crate) patience: Patience,
    /// What its lock is for, if it says so itself. This is said when the request is made, and stays
    /// true of the lock.
    pub(crate) why: String,
    /// The locks inside which it was made.
    pub(crate) inside: Vec<Outer>,
}

/// A lock inside which a request was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outer {
    /// The name of the lock's bucket.
    pub(crate) bucket: String,
    /// The name of the lock.
    pub(crate) name: NameKey,
    /// The lock.
    pub(crate) lock: LockId,
}

/// At most this many locks are written, and only locks in buckets whose names are not too long.
/// Nothing is known of other locks.
pub(crate) const MOST_INSIDE: usize = 16;
/// See [`MOST_INSIDE`].
pub(crate) const LONGEST_BUCKET: usize = 128;

/// The longest text that is written. A longer one is cut, because it is of no use to anybody.
pub(crate) const LONGEST_TEXT: usize = 4096;

/// How many pairs of an agent's metadata are written and read at most. A broker tells its clients of no
/// more: this is `MAX_META` of `navlock-wire`, on which only this crate's tests depend.
pub(crate) const MOST_META: usize = 16;

/// Cuts what an agent says of itself to what fits into a value.
pub(crate) fn cut_info(info: &mut AgentInfo) {
    let AgentInfo { command, user, host, why, meta, .. } = info;
    meta.truncate(MOST_META);
    let meta = meta.iter_mut().flat_map(|(key, is)| [key, is]);
    let all = [command, user, host, why].into_iter().chain(meta);
    all.for_each(|text| text.truncate(clip_bytes(text, LONGEST_TEXT).len()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_pairs_are_read_as_clients_may_send() {
        assert_eq!(MOST_META, navlock_wire::MAX_META);
    }

    #[test]
    fn long_texts_are_cut() {
        let mut info = AgentInfo::default();
        info.command = "ö".repeat(5000);
        info.host = "here".to_owned();
        info.meta = vec![("key".to_owned(), "x".repeat(5000)); 20];
        cut_info(&mut info);
        assert_eq!((&*info.command, &*info.host), (&*"ö".repeat(2048), "here"));
        assert_eq!((info.meta.len(), info.meta[0].1.len()), (MOST_META, LONGEST_TEXT));
    }
}
