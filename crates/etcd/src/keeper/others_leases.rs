//! Leases that another connection had, with whose agents we go on, and what is nobody's under a lease.

use super::{
    AgentSerial, Call, Keeper, Why,
    agent::{Agent, LeaseState},
    lease_states::{Lease, OwnLease, State},
};
use crate::{
    clock::Uptime,
    data::{Step, Transaction},
    keys::{BucketKeys, Phase, RequestKey},
    lease::{LeaseName, Renewal, Share},
    slots::Owner,
    table::Status,
    transactions::MOST,
};
use std::{collections::HashSet, time::Duration};

impl Keeper {
    /// An agent goes on with what it had under a lease of another connection.
    pub(super) fn take_over(&mut self, serial: AgentSerial, id: i64) {
        let Some(agent) = self.agents.get_mut(&serial) else { return };
        agent.under = LeaseState::Lease(id);
        let bucket = agent.bucket;
        let name = LeaseName { cluster: self.history.cluster(), id };
        let share = Share { lease: name, client_id: agent.client_id };
        self.shared.table().set_lease(serial, agent.id, share);
        match self.leases.get(&id).map(|lease| (lease.state, lease.renewal)) {
            Some((State::Live, renewal)) => {
                self.revive(serial, renewal);
                self.step_buckets();
            }
            Some(_) => {}
            None => {
                let now = Uptime::now();
                let renewal = Renewal { sent: now, time_to_live: self.options.time_to_live };
                let state = State::Recalled(now);
                let lease = Lease { name, state, renewal, swept: now, buckets: Vec::new() };
                self.leases.insert(id, lease);
                // For how long it is good is asked: it was made with the settings of that time.
                self.keep(id, None);
            }
        }
        // Whoever goes on says what it has, but not what it has ended while nobody heard of that.
        let Some(lease) = self.leases.get_mut(&id) else { return };
        if !lease.buckets.contains(&bucket) {
            lease.buckets.push(bucket);
            self.calls.push_back(Call::LookUnder { lease: id, why: Why::Left(bucket) });
        }
    }

    /// It could not be seen what agents of a bucket have left under a lease.
    pub(super) fn has_not_looked(&mut self, id: i64, bucket: u64) {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.buckets.retain(|&of| of != bucket);
        }
    }

    /// Looks again where it could not be seen.
    pub(super) fn look_for_left(&mut self) {
        let of = self.agents.values().filter_map(|agent| Some((agent.lease_id()?, agent.bucket)));
        let mut unseen: Vec<_> = of
            .filter(|&(id, bucket)| {
                let lease = self.leases.get(&id).filter(|_| self.is_recalled(id));
                lease.is_some_and(|lease| !lease.buckets.contains(&bucket))
            })
            .collect();
        unseen.sort_unstable();
        unseen.dedup();
        for (id, bucket) in unseen {
            if let Some(lease) = self.leases.get_mut(&id) {
                lease.buckets.push(bucket);
                self.calls.push_back(Call::LookUnder { lease: id, why: Why::Left(bucket) });
            }
        }
    }

    /// Looks into all names of a bucket in which these keys are: what is of agents that have come back
    /// and that they do not go on with is removed when it is seen.
    pub(super) fn view_left(&mut self, bucket: u64, under: &[Vec<u8>]) {
        let Some(opened) = self.buckets.get(&bucket) else { return };
        let of = under.iter().filter_map(|key| opened.bucket.keys.parse(key));
        let left = of.filter(|key| self.slots.owner(key.request, i64::MAX) == Owner::Others);
        let names: Vec<_> = left.map(|key| key.name).collect();
        for name in names {
            self.open_view(bucket, &name, None);
        }
    }

    /// Removes what stands under a lease and is nobody's: where it was another connection's, with which
    /// nobody goes on, as it would have ended by now if each agent had a lease; and what late tries have
    /// made in buckets into which nobody looks any more. These are the keys under it.
    pub(super) fn sweep(&mut self, id: i64, under: &[Vec<u8>]) {
        if !self.leases.contains_key(&id) {
            return;
        }
        let is_own = self.own == OwnLease::There(id);
        let (mut nobodys, mut there) = (Vec::new(), HashSet::new());
        for key in under {
            let found = BucketKeys::around(&self.options.namespace, key);
            let Some(of) = found.and_then(|(_, keys)| keys.parse(key)) else { continue };
            if of.phase == Phase::Owned {
                // Of who had the lease before us, and nobody goes on with that.
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
            // Also what was given up before: that may have come to nothing.
            if !is_own && (is_of_others || self.slots.is_given_up(of.request)) {
                // From here on nobody comes back for it: it goes, whenever that is done.
                self.slots.give_up(of.request);
                nobodys.push(Step::Delete(key.clone()));
            }
        }
        for some in nobodys.chunks(MOST) {
            let transaction = Transaction { then: some.to_vec(), ..Transaction::default() };
            self.calls.push_back(Call::Write { transaction });
        }
        self.look_where_it_differs(id, &there);
    }

    /// Whether what stands under a lease is of a request that has been answered otherwise: a late try has
    /// made it. What works under it may not have ended if it was lost with its lease.
    pub(super) fn is_over(&self, key: RequestKey, phase: Phase, lease: i64) -> bool {
        let is_lapsing = phase == Phase::Held && self.lapsing.contains_key(&lease);
        let whose = self.slots.holder(key).filter(|_| !is_lapsing);
        whose.is_some_and(|id| self.shared.table().status(id) == Status::Ended)
    }

    /// Lists the names in which what is held under a lease is not what is known to be.
    pub(super) fn look_where_it_differs(&mut self, lease: i64, there: &HashSet<RequestKey>) {
        let is_under = |serial| {
            let agent = self.agents.get(&serial);
            agent.and_then(Agent::lease_id) == Some(lease)
        };
        let table = self.shared.table();
        let differ = table.alive().filter(|&(.., key, is_held, serial)| {
            there.contains(&key) != is_held && is_under(serial)
        });
        let differ: Vec<_> = differ.map(|(bucket, name, ..)| (bucket, name.clone())).collect();
        drop(table);
        // Or it has come since.
        for (bucket, name) in differ {
            self.look(bucket, &name, Duration::ZERO);
        }
    }

    /// Whether this lease was another connection's.
    pub(super) fn is_recalled(&self, id: i64) -> bool {
        self.own != OwnLease::There(id) && self.leases.contains_key(&id)
    }

    /// Lets go of leases that were others' and that no agent of ours goes on with. They end by
    /// themselves: somebody else's agents may still come for what they have there.
    pub(super) fn let_go_unused(&mut self) {
        let is_used = |id| self.agents.values().any(|agent| agent.under == LeaseState::Lease(id));
        let unused = self.leases.keys().copied();
        let unused = unused.filter(|&id| self.own != OwnLease::There(id) && !is_used(id));
        let mut unused: Vec<i64> = unused.collect();
        unused.sort_unstable();
        for lease in unused {
            self.leases.remove(&lease);
            self.gone.retain(|gone| gone.lease != lease);
            self.calls.push_back(Call::LetGo { lease });
        }
    }
}
