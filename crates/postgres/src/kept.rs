//! What this machine knows of the keys under its leases, to put it back when PostgreSQL has lost its memory.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::messages::Told;

/// How many keys are remembered at most that are deleted or another machine's.
const DELETED: usize = 10_000;

/// The keys under leases of this machine, as far as it was told.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    leases: HashSet<i64>,
    keys: HashMap<String, Told>,
    /// The last revision of keys that are gone from there, because what happened before that may be told later.
    deleted: HashMap<String, i64>,
}

impl Kept {
    /// From now on the keys under this lease are this machine's.
    pub(crate) fn keep(&mut self, lease: i64) {
        self.leases.insert(lease);
    }

    /// The lease ends, or somebody else keeps it.
    pub(crate) fn let_go(&mut self, lease: i64) {
        self.leases.remove(&lease);
        self.keys.retain(|_, told| told.lease != lease);
    }

    /// Takes in what has happened to keys, in any order.
    pub(crate) fn take_in<'a>(&mut self, told: impl IntoIterator<Item = &'a Told>) {
        for told in told {
            let Told { key, written, .. } = told;
            let is_known = self.keys.get(key).is_some_and(|known| known.written >= *written)
                || self.deleted.get(key).is_some_and(|deleted| deleted >= written);
            if is_known {
                continue;
            }
            if told.is_put() && self.leases.contains(&told.lease) {
                self.deleted.remove(key);
                self.keys.insert(key.clone(), told.clone());
            } else {
                self.keys.remove(key);
                self.deleted.insert(key.clone(), *written);
            }
        }
        if self.deleted.len() > DELETED {
            // What was deleted long ago is not told any more.
            let mut revisions: Vec<_> = self.deleted.values().copied().collect();
            let (_, &mut middle, _) = revisions.select_nth_unstable(DELETED / 2);
            self.deleted.retain(|_, revision| *revision > middle);
        }
    }

    /// Takes in all keys that stand under a lease at this revision.
    pub(crate) fn take_all(&mut self, lease: i64, told: &[Told], revision: i64) {
        self.take_list(told, revision, |known| known.lease == lease);
    }

    /// Takes in all keys of a range at this revision.
    pub(crate) fn take_range(&mut self, first: &str, behind: &str, told: &[Told], revision: i64) {
        self.take_list(told, revision, |known| first <= &*known.key && &*known.key < behind);
    }

    fn take_list(&mut self, told: &[Told], revision: i64, is_of_list: impl Fn(&Told) -> bool) {
        let there: HashSet<_> = told.iter().map(|told| &*told.key).collect();
        self.keys.retain(|key, known| {
            known.written > revision || there.contains(&**key) || !is_of_list(known)
        });
        self.take_in(told);
    }

    /// The leases, and the keys under them.
    pub(crate) fn all(&self) -> (Vec<i64>, Vec<Value>) {
        (self.leases.iter().copied().collect(), self.keys.values().map(Told::json).collect())
    }
}
