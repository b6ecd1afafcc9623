//! What this machine knows of the keys under its leases, to put it back when PostgreSQL has lost its memory.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use serde_json::{Value, json};

use crate::messages::Told;

/// How many keys are remembered at most that are deleted or another machine's.
const DELETED: usize = 10_000;

/// The keys under leases of this machine, as far as it was told.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// With their times to live, in milliseconds.
    leases: HashMap<i64, u128>,
    keys: HashMap<String, Told>,
    /// The last revision of keys that are gone from there, because what happened before that may be told later.
    deleted: HashMap<String, i64>,
}

impl Kept {
    /// From now on the keys under this lease are this machine's.
    pub(crate) fn keep(&mut self, lease: i64, time_to_live: Duration) {
        self.leases.insert(lease, time_to_live.as_millis());
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
                || self.deleted.get(key).is_some_and(|gone| gone > written);
            if is_known {
                continue;
            }
            if told.is_put() && self.leases.contains_key(&told.lease) {
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
        let deleted = &mut self.deleted;
        self.keys.retain(|key, known| {
            let is_there = known.written > revision || there.contains(&**key) || !is_of_list(known);
            if !is_there {
                deleted.insert(key.clone(), revision);
            }
            is_there
        });
        self.take_in(told);
    }

    /// The leases.
    pub(crate) fn leases(&self) -> Vec<(i64, Duration)> {
        let millis =
            |millis: u128| Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
        self.leases.iter().map(|(lease, time)| (*lease, millis(*time))).collect()
    }

    /// The leases with their times to live, and the keys under them, as they are put back.
    pub(crate) fn json(&self) -> (Value, Value) {
        let leases = self.leases.iter().map(|(lease, time)| json!([lease, time]));
        (leases.collect(), self.keys.values().map(Told::json).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: i64 = 7;

    /// A key under our lease, or another one, or nothing.
    fn told(key: &str, written: i64, lease: Option<i64>) -> Told {
        let value = lease.map(|_| "00");
        let row = json!([key, value, lease.map(|_| written), written, lease]);
        serde_json::from_value(row).unwrap()
    }

    fn keys(kept: &Kept) -> Vec<String> {
        let mut keys: Vec<_> = kept.keys.keys().cloned().collect();
        keys.sort();
        keys
    }

    fn kept() -> Kept {
        let mut kept = Kept::default();
        kept.keep(LEASE, Duration::from_secs(10));
        kept
    }

    #[test]
    fn what_is_told_in_any_order_comes_to_the_same() {
        let all = [
            told("a", 2, Some(LEASE)),
            told("a", 4, None),
            told("b", 3, Some(LEASE)),
            told("b", 5, Some(8)),
            told("c", 1, None),
            told("c", 6, Some(LEASE)),
        ];
        let mut orders = vec![(Vec::<usize>::new(), (0..all.len()).collect::<Vec<_>>())];
        while let Some((order, left)) = orders.pop() {
            if left.is_empty() {
                let mut kept = kept();
                for &nth in &order {
                    kept.take_in([&all[nth]]);
                }
                assert_eq!(keys(&kept), ["c"], "{order:?}");
            }
            for &nth in &left {
                let rest = left.iter().copied().filter(|&other| other != nth).collect();
                orders.push(([&*order, &[nth]].concat(), rest));
            }
        }
    }

    #[test]
    fn a_list_says_what_is_there_and_what_is_not() {
        let mut kept = kept();
        kept.take_in(&[
            told("n/a", 2, Some(LEASE)),
            told("n/b", 9, Some(LEASE)),
            told("m/a", 2, Some(LEASE)),
        ]);
        kept.take_range("n/", "n0", &[told("n/c", 5, Some(LEASE)), told("n/d", 5, Some(8))], 6);
        assert_eq!(keys(&kept), ["m/a", "n/b", "n/c"]);
        // What was before the list is told late.
        kept.take_in(&[told("n/a", 2, Some(LEASE))]);
        assert_eq!(keys(&kept), ["m/a", "n/b", "n/c"]);
        kept.take_all(LEASE, &[told("n/c", 5, Some(LEASE))], 12);
        assert_eq!(keys(&kept), ["n/c"]);
        // A key of another machine that this one goes on with, as it was listed before.
        kept.take_in(&[told("n/d", 5, Some(8))]);
        kept.keep(8, Duration::from_secs(10));
        kept.take_all(8, &[told("n/d", 5, Some(8))], 13);
        assert_eq!(keys(&kept), ["n/c", "n/d"]);
        kept.let_go(8);
        kept.let_go(LEASE);
        assert!(keys(&kept).is_empty());
    }
}
