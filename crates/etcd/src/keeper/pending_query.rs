//! A query that is not answered yet.

use std::collections::{HashMap, HashSet};

use navlock_core::Error;
use tokio::sync::oneshot;

use super::history::Known;
use crate::{
    clock::Uptime,
    data::KeyValue,
    hash::HashState,
    keys::{LockKey, NameKey, RequestKey},
    query::{Asks, QueryResult},
};

/// The question of a caller: what is held, and who waits.
pub(super) struct Query {
    pub(super) bucket: u64,
    /// The name that is asked about; `None` for all names.
    pub(super) name: Option<NameKey>,
    pub(super) most: usize,
    pub(super) asks: Asks,
    /// Everything up to this number must be done first, so that the caller sees its own requests,
    /// and no lock that it has released.
    pub(super) after: u64,
    pub(super) rounds: u32,
    pub(super) is_asking: bool,
    /// What only this connection knows, for a list that is on its way of the revision at which that
    /// was so.
    pub(super) own: Option<OwnPart>,
    /// Whether the owner of a name was asked what it holds.
    pub(super) asks_owners: bool,
    /// Until when the query waits for an owner's answer. After that, time is left to say that there
    /// was no answer.
    pub(super) shown_by: Uptime,
    pub(super) deadline: Uptime,
    pub(super) answer: oneshot::Sender<Result<QueryResult, Error>>,
}

/// What only this connection knows at one moment: the locks and requests of the names that it owns.
///
/// Everything that agents of this connection have heard from etcd by then has happened up to a revision, and
/// what they ask etcd for later happens after it. So the list of that revision and this part are one moment.
pub(super) struct OwnPart {
    pub(super) known: Known,
    /// The largest revision that was heard of.
    pub(super) revision: i64,
    /// The names, with the revisions since which they are owned, and their locks and requests in the form that
    /// they would have in etcd.
    pub(super) names: HashMap<NameKey, (i64, Vec<KeyValue>), HashState>,
    /// The locks and requests in etcd that had not ended. What has ended may stand there still, and is not
    /// shown beside what its agent has done later.
    pub(super) live: HashSet<RequestKey, HashState>,
}

impl OwnPart {
    /// Whether this is the owner key of such a name.
    pub(super) fn has(&self, kv: &KeyValue, key: &LockKey) -> bool {
        self.names.get(&key.name).is_some_and(|&(made, _)| made == kv.made)
    }
}
