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
/// Everything that agents of the connection have heard from the store by then has happened up to a revision, and
/// what they ask the store for later happens after it. So the list of that revision and this part are one moment.
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
    /// The slots of the locks and requests in the store that had not ended. What has ended may stand there still, and
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

    /// The locks and requests of the name of this owner key, as they would stand in the store.
    pub(super) fn entries(&self, keys: &BucketKeys, of: &LockKey) -> Vec<KeyValue> {
        let Some((since, entries)) = self.names.get(&of.name) else { return Vec::new() };
        let (made, keys) = (*since, keys.name(&of.name));
        let entry = |LeavingEntry { phase, ask }: &LeavingEntry| {
            let key = keys.request(*phase, ask.mode, ask.request);
            KeyValue { key, value: ask.value.clone(), made, written: made, lease: ask.lease }
        };
        entries.iter().map(entry).collect()
    }

    /// Whether this key is of a name that the connection has given up since: the store has who holds it and who waits.
    /// `owned` are the names that are owned now, with the revisions since which they are.
    pub(super) fn has_left(
        &self,
        key: &LockKey,
        owned: &HashSet<(NameKey, i64), HashState>,
    ) -> bool {
        let left = |&(made, _): &(i64, _)| !owned.contains(&(key.name.clone(), made));
        key.request.owner == self.owner && self.names.get(&key.name).is_some_and(left)
    }

    /// Whether this key of the same connection and lease belongs to a lock or request that was there and had
    /// not ended by then; `None` if it is another's.
    pub(super) fn is_live(&self, kv: &KeyValue, key: &LockKey) -> Option<bool> {
        let RequestKey { owner, slot } = key.request;
        let is_its = !self.names.is_empty() && owner == self.owner && kv.lease == self.lease;
        (is_its && key.phase != Phase::Owned).then(|| self.live.contains(&slot))
    }
}

#[cfg(test)]
mod tests {
    use navlock_core::Mode;

    use super::*;

    const OWNER: u128 = 7;
    const LEASE: i64 = 3;

    #[test]
    fn what_stands_under_a_name_that_was_given_up_since_is_not_taken_for_ended() {
        let names = ["kept", "left", "other"].map(|name| NameKey::new(&name.try_into().unwrap()));
        let keys = BucketKeys::new("n", "b");
        // The slots of what the owner had not ended by then do not have the one that it gave later.
        let part = OwnerPart {
            owner: OWNER,
            lease: LEASE,
            names: names[..2].iter().map(|name| (name.clone(), (5, Vec::new()))).collect(),
            live: [1].into_iter().collect(),
            ..OwnerPart::default()
        };
        let owned: HashSet<_, HashState> = [(names[0].clone(), 5)].into_iter().collect();
        let request = RequestKey { owner: OWNER, slot: 2 };
        let seen = |name: &NameKey| {
            let key = keys.name(name).request(Phase::Held, Mode::Exclusive, request);
            let parsed = keys.parse(&key).unwrap();
            let kv = KeyValue { key, value: Vec::new(), made: 9, written: 9, lease: LEASE };
            (part.has_left(&parsed, &owned), part.is_live(&kv, &parsed))
        };
        assert_eq!(seen(&names[0]), (false, Some(false)), "it ended, and stands there still");
        assert_eq!(
            seen(&names[1]),
            (true, Some(false)),
            "it was written when the name was given up"
        );
        assert_eq!(seen(&names[2]), (false, Some(false)), "it came after the owner's moment");
        // Given up, and owned again: the key of that ownership is another.
        let again: HashSet<_, HashState> = [(names[1].clone(), 8)].into_iter().collect();
        let key = keys.name(&names[1]).request(Phase::Held, Mode::Exclusive, request);
        assert!(part.has_left(&keys.parse(&key).unwrap(), &again));
    }
}
