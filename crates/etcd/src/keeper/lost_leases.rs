//! What becomes of the locks, requests and names under a lease that is lost.

use super::{
    AgentSerial, Call, Keeper,
    agent::{Agent, LeaseState},
    lease_states::{ExpiringLease, OwnLease},
    wake,
};
use crate::{
    LOGS,
    bucket::Todo,
    clock::Uptime,
    ended::Ended,
    keys::{NameKey, Phase},
    values::Value,
};
use navlock_core::Lost;

impl Keeper {
    /// To be called when all keys under a lease are lost. The agents get another lease when they
    /// ask for something. Waiting requests are made again, in the order in which they were made
    /// before.
    pub(super) fn lose_lease(&mut self, id: i64, how: Lost) {
        if !self.leases.contains_key(&id) {
            return;
        }
        // The owned names come first, because the lease tells which of them are lost.
        self.lose_names_under(id, how);
        let Some(lease) = self.leases.remove(&id) else { return };
        self.gone.retain(|gone| gone.lease != id);
        let is_own = self.own == OwnLease::There(id);
        if is_own {
            self.own = OwnLease::None;
            self.slots.forget_spent();
            // Agents that have come while the lease was in doubt wait for the next lease, which has
            // to be requested.
            for serial in self.agents_with(|under| under == LeaseState::Coming) {
                if let Some(agent) = self.agents.get_mut(&serial) {
                    agent.under = LeaseState::Nothing;
                }
            }
        }
        let (mut wakers, mut again) = (Vec::new(), Vec::new());
        let agents = self.agents_with(|under| under == LeaseState::Lease(id));
        let left = if is_own { Vec::new() } else { self.had_under(id, &agents) };
        for &serial in &agents {
            let Some(agent) = self.agents.get_mut(&serial) else { continue };
            agent.under = LeaseState::Nothing;
            let mut table = self.shared.table();
            let (woken, asked) = table.lose_agent(serial, agent.id, how);
            wakers.extend(woken);
            again.extend(asked.into_iter().map(|again| (serial, again)));
        }
        if !agents.is_empty() {
            tracing::warn!(
                target: LOGS,
                lease = id,
                ?how,
                agents = agents.len(),
                asks_again = again.len(),
                "what is held under a lease is lost, if something is"
            );
        }
        wake(wakers);
        // From here on, the keys of the lease, and operations on them, belong to nobody.
        self.ask_again(again);
        self.calls.push_back(Call::LetGo { lease: id });
        let is_held = |&(phase, ..): &(Phase, _, _, _)| phase == Phase::Held;
        let (held, waits): (Vec<_>, Vec<_>) = left.into_iter().partition(is_held);
        let bare = |(_, bucket, name, ended)| (bucket, name, ended);
        let expires = match how {
            // Others may have been granted all of these locks already.
            Lost::Reset => Uptime::now(),
            _ => self.options.times.term(lease.renewal).expires,
        };
        // Others may have reclaimed the lease and lost it again.
        let expiring =
            self.expiring.entry(id).or_insert(ExpiringLease { expires, is_own, held: vec![] });
        expiring.expires = expiring.expires.max(expires);
        expiring.held.extend(held.into_iter().map(bare));
        // Nobody works under a request that waits.
        self.remove_all(waits.into_iter().map(bare));
        self.check_expiring();
        self.step_buckets();
        for serial in agents {
            self.need_lease_to_wait(serial);
        }
    }

    pub(super) fn remove_all(&mut self, all: impl IntoIterator<Item = (u64, NameKey, Ended)>) {
        for (bucket, name, ended) in all {
            if let Some(opened) = self.buckets.get_mut(&bucket) {
                opened.bucket.push(name, Todo::Remove(ended, None));
            }
        }
    }

    /// Ends the leases that are over for others as well, so that nobody has to wait, after etcd has
    /// come back, until etcd notices by itself. A lease that was another connection's must not be
    /// ended here, because agents that have not come back may still hold locks under it.
    pub(super) fn check_expiring(&mut self) {
        let now = Uptime::now();
        let mut over: Vec<i64> = self.expiring.keys().copied().collect();
        over.retain(|id| self.expiring[id].expires <= now);
        over.sort_unstable();
        for id in over {
            let Some(ExpiringLease { is_own, held, .. }) = self.expiring.remove(&id) else {
                continue;
            };
            if is_own {
                self.revoke(id);
            }
            self.remove_all(held);
        }
    }

    /// The locks and requests of these agents under a lease, as far as they are known. For each:
    /// whether it is held, its bucket and name, and the request to end.
    pub(super) fn had_under(
        &self,
        lease: i64,
        agents: &[AgentSerial],
    ) -> Vec<(Phase, u64, NameKey, Ended)> {
        let of =
            |serial| self.agents.get(serial).map(|agent: &Agent| (agent.bucket, agent.client_id));
        let whose: Vec<_> = agents.iter().filter_map(of).collect();
        let mut buckets: Vec<u64> = whose.iter().map(|&(bucket, _)| bucket).collect();
        buckets.sort_unstable();
        buckets.dedup();
        let mut found = Vec::new();
        for bucket in buckets {
            let Some(opened) = self.buckets.get(&bucket) else { continue };
            for (name, phase, entry) in opened.bucket.entries() {
                let is_theirs =
                    Value::client_id(&entry.value).is_some_and(|id| whose.contains(&(bucket, id)));
                if entry.lease == lease && is_theirs {
                    found.push((phase, bucket, name.clone(), entry.ended()));
                }
            }
        }
        found.sort_by_key(|(phase, bucket, _, ended)| {
            (*bucket, ended.request, *phase == Phase::Queued)
        });
        // A late try may have put a request that is held into the queue as well.
        found.dedup_by_key(|(_, bucket, _, ended)| (*bucket, ended.request));
        found
    }
}
