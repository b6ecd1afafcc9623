//! Leases of other connections whose agents this connection has taken over, and keys under a lease
//! that belong to nobody.

use super::{AgentSerial, Call, Keeper, UnderLease, Why};
use crate::{
    data::{Step, Transaction},
    keys::{BucketKeys, Phase, RequestKey},
    lease::LeaseName,
    leases::Agent,
    slots::Owner,
    table::Status,
    transactions::MOST,
    view::Ownership,
};
use std::{collections::HashSet, time::Duration};

impl Keeper {
    /// To be called when an agent goes on with what it had under a lease of another connection.
    pub(super) fn take_over(&mut self, serial: AgentSerial, id: i64) {
        let Some(agent) = self.leases.agents.get(&serial) else { return };
        let bucket = agent.bucket;
        let name = LeaseName { cluster: self.history.cluster(), id };
        if let Some(renewal) = self.leases.take_over(serial, name, UnderLease::new()) {
            self.revive(serial, renewal);
            self.step_buckets();
        }
        // A reclaimed agent claims the locks that it still has, but does not name the locks that it
        // ended while nobody could hear of it.
        self.look_for_left_of(id, bucket);
    }

    /// Looks for keys that agents of a bucket have left under a lease, unless that was done.
    fn look_for_left_of(&mut self, id: i64, bucket: u64) {
        let Some(notes) = self.leases.notes_mut(id) else { return };
        if !notes.buckets.contains(&bucket) {
            notes.buckets.push(bucket);
            self.calls.push_back(Call::LookUnder { lease: id, why: Why::Left(bucket) });
        }
    }

    /// To be called when the keys that agents of a bucket have left under a lease could not be
    /// listed.
    pub(super) fn has_not_looked(&mut self, id: i64, bucket: u64) {
        if let Some(notes) = self.leases.notes_mut(id) {
            notes.buckets.retain(|&of| of != bucket);
        }
    }

    /// Looks again for keys that agents have left where they could not be listed.
    pub(super) fn look_for_left(&mut self) {
        let of = self.leases.agents.values();
        let mut all: Vec<_> = of.filter_map(|agent| Some((agent.lease()?, agent.bucket))).collect();
        all.retain(|(id, _)| self.leases.is_of_another(*id));
        all.sort_unstable();
        for (id, bucket) in all {
            self.look_for_left_of(id, bucket);
        }
    }

    /// Opens all names of a bucket that these keys are in. Keys that belong to agents that have
    /// come back, but that these agents do not claim, are removed when they are seen.
    pub(super) fn view_left(&mut self, bucket: u64, under: &[Vec<u8>]) {
        let Some(opened) = self.buckets.get(&bucket) else { return };
        let of = under.iter().filter_map(|key| opened.bucket.keys.parse(key));
        let left = of.filter(|key| self.slots.owner(key.request, i64::MAX) == Owner::Others);
        let names: Vec<_> = left.map(|key| key.name).collect();
        for name in names {
            self.open_view(bucket, &name, None);
        }
    }

    /// Removes keys that stand under a lease and belong to nobody. `under` has the keys under that
    /// lease. If the lease was another connection's, these are the keys that no agent claims: with
    /// a lease for each agent, these keys would have ended already. Keys that late tries have made
    /// in buckets that nobody looks into any more are removed as well.
    pub(super) fn sweep(&mut self, id: i64, under: &[Vec<u8>]) {
        if self.leases.get(id).is_none() {
            return;
        }
        let is_own = self.leases.own() == Some(id);
        let (mut nobodys, mut there) = (Vec::new(), HashSet::new());
        for key in under {
            let found = BucketKeys::around(&self.options.namespace, key);
            let Some(of) = found.and_then(|(_, keys)| keys.parse(key)) else { continue };
            if of.phase == Phase::Owned {
                // The owner key belongs to the connection that had the lease before, and nobody
                // goes on with it.
                if !is_own {
                    nobodys.push(Step::Delete(key.clone()));
                }
                continue;
            }
            if self.slots.is_spent(of.request) || self.is_over(of.request, of.phase, id) {
                nobodys.push(Step::Delete(key.clone()));
                continue;
            }
            if of.phase == Phase::Held {
                there.insert(of.request);
            }
            let is_of_others = self.slots.owner(of.request, i64::MAX) == Owner::Others;
            // Keys that were given up before are removed again, because the removal may have
            // failed.
            if !is_own && (is_of_others || self.slots.is_given_up(of.request)) {
                // From here on nobody claims the key any more, and it is removed, however long that
                // takes.
                self.slots.give_up(of.request);
                nobodys.push(Step::Delete(key.clone()));
            }
        }
        for some in nobodys.chunks(MOST) {
            let transaction = Transaction { then: some.to_vec(), ..Transaction::default() };
            self.calls.push_back(Call::Write { transaction });
        }
        self.look_where_it_differs(id, &there);
        if is_own {
            self.look_where_owner_keys_are_gone(under);
        }
    }

    /// Lists the names that this connection owns, and whose owner keys are not among these. A watch that
    /// hangs does not tell that somebody has removed them.
    fn look_where_owner_keys_are_gone(&mut self, there: &[Vec<u8>]) {
        let there: HashSet<&[u8]> = there.iter().map(|key| &**key).collect();
        let me = self.slots.me();
        let mut gone = Vec::new();
        for (&bucket, opened) in &self.buckets {
            for (name, view) in &opened.bucket.views {
                let is_owned = matches!(view.own, Ownership::Since(_));
                if is_owned && !there.contains(&*opened.bucket.keys.name(name).owned(me)) {
                    gone.push((bucket, name.clone()));
                }
            }
        }
        for (bucket, name) in gone {
            self.look(bucket, &name, Duration::ZERO);
        }
    }

    /// Whether a key under a lease belongs to a request that was answered in another way, so that a
    /// late try has made the key. This is not so for a lock that was lost with its lease, because
    /// the work under the lock may not have ended.
    pub(super) fn is_over(&self, key: RequestKey, phase: Phase, lease: i64) -> bool {
        let is_expiring = phase == Phase::Held && self.leases.is_expiring(lease);
        let whose = self.slots.holder(key).filter(|_| !is_expiring);
        whose.is_some_and(|id| self.shared.table().status(id) == Status::Ended)
    }

    /// Lists the names whose locks under a lease differ from those that are known.
    pub(super) fn look_where_it_differs(&mut self, lease: i64, there: &HashSet<RequestKey>) {
        let is_under = |serial| {
            let agent = self.leases.agents.get(&serial);
            agent.and_then(Agent::lease) == Some(lease)
        };
        let table = self.shared.table();
        let differ = table.alive().filter(|&(.., key, is_held, serial)| {
            there.contains(&key) != is_held && is_under(serial)
        });
        let differ: Vec<_> = differ.map(|(bucket, name, ..)| (bucket, name.clone())).collect();
        drop(table);
        // It is also possible that the lock was made after the keys were listed.
        for (bucket, name) in differ {
            self.look(bucket, &name, Duration::ZERO);
        }
    }
}
