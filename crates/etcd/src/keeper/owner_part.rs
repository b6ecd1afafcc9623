//! What only the owner of names knows, for queries of its own connection and of others.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::{
    data::KeyValue,
    hash::HashState,
    keys::{BucketKeys, LockKey, NameKey, Phase, RequestKey},
    transactions::{AskPurpose, LeavingEntry},
    values::Value,
};

/// What a connection knows at one moment: the locks and requests of names that it owns.
///
/// Everything that agents of the connection have heard from etcd by then has happened up to a revision, and
/// what they ask etcd for later happens after it. So the list of that revision and this part are one moment.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct OwnerPart {
    pub(super) owner: u128,
    pub(super) lease: i64,
    /// The revision that had written the question; 0 for a query of the connection's own.
    pub(super) asked: i64,
    /// The largest revision that was heard of.
    pub(super) revision: i64,
    /// Whether these are all names of the bucket that the connection owns.
    pub(super) is_whole: bool,
    /// The names, with the revisions since which they are owned, and their locks and requests.
    pub(super) names: HashMap<NameKey, (i64, Vec<LeavingEntry>), HashState>,
    /// The slots of the locks and requests in etcd that had not ended. What has ended may stand there still, and
    /// is not shown beside what its agent has done later. Nor is what its agent has done since.
    pub(super) live: HashSet<u64, HashState>,
}

impl OwnerPart {
    /// The answer that was appended to the value of this owner key, if it can be one of this owner to a question
    /// that stood there.
    pub(super) fn of(owned: &KeyValue, key: &LockKey) -> Option<Self> {
        let said = Some(&owned.value).filter(|value| AskPurpose::is_said(value))?;
        let part: Self = postcard::from_bytes(Value::split(said).1).ok()?;
        let is_earlier = part.asked < owned.written && part.revision < owned.written;
        (is_earlier && part.owner == key.request.owner).then_some(part)
    }

    /// Whether this is the owner key of such a name.
    pub(super) fn has(&self, kv: &KeyValue, key: &LockKey) -> bool {
        let is_it = |&(made, _): &(i64, _)| made == kv.made && self.owner == key.request.owner;
        self.names.get(&key.name).is_some_and(is_it)
    }

    /// Whether the connection of this owner key has nothing more to say: it owns the name since, or is about to
    /// hear that it does, or has just given it up.
    pub(super) fn is_all_of(&self, key: &LockKey) -> bool {
        self.is_whole && self.owner == key.request.owner
    }

    /// The locks and requests of the name of this owner key, as they would stand in etcd.
    pub(super) fn entries(&self, keys: &BucketKeys, of: &LockKey) -> Vec<KeyValue> {
        let Some((since, entries)) = self.names.get(&of.name) else { return Vec::new() };
        let (made, keys) = (*since, keys.name(&of.name));
        let entry = |LeavingEntry { phase, ask }: &LeavingEntry| {
            let key = keys.request(*phase, ask.mode, ask.request);
            KeyValue { key, value: ask.value.clone(), made, written: made, lease: ask.lease }
        };
        entries.iter().map(entry).collect()
    }

    /// Whether this key of the same connection and lease belongs to a lock or request that was there and had
    /// not ended by then; `None` if it is another's, or of a name that the connection has given up since.
    pub(super) fn is_live(
        &self,
        kv: &KeyValue,
        key: &LockKey,
        is_owned: impl FnOnce(i64) -> bool,
    ) -> Option<bool> {
        let RequestKey { owner, slot } = key.request;
        let is_its = !self.names.is_empty() && owner == self.owner && kv.lease == self.lease;
        if !is_its || key.phase == Phase::Owned {
            return None;
        }
        // Its holders and waiters were written when it was given up.
        let is_here = self.names.get(&key.name).is_none_or(|&(made, _)| is_owned(made));
        is_here.then(|| self.live.contains(&slot))
    }
}
