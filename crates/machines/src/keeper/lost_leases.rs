//! What becomes of the locks, requests and names under a lease that is lost.

use super::{AgentSerial, Keeper};
use crate::{
    LOGS,
    bucket::Todo,
    ended::Ended,
    keys::{NameKey, Phase},
    leases::{Agent, Loss},
    values::Value,
};
use navlock_core::Lost;

impl Keeper {
    /// To be called when all keys under a lease are lost. The agents get another lease when they
    /// ask for something. Waiting requests are made again, in the order in which they were made
    /// before.
    pub(super) fn lose_lease(&mut self, id: i64, how: Lost) {
        if self.leases.get(id).is_none() {
            return;
        }
        // The owned names come first, because the lease tells which of them are lost.
        self.lose_names_under(id, how);
        self.gone.retain(|gone| gone.lease != id);
        let left = if self.leases.own() == Some(id) {
            self.slots.forget_spent();
            Vec::new()
        } else {
            self.had_under(id, &self.leases.under(id))
        };
        let Some(Loss { agents, again }) = self.leases.lose(id, how) else { return };
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
        let is_held = |&(phase, ..): &(Phase, _, _, _)| phase == Phase::Held;
        let (held, waits): (Vec<_>, Vec<_>) = left.into_iter().partition(is_held);
        let bare = |(_, bucket, name, ended)| (bucket, name, ended);
        if !held.is_empty() {
            self.held_under_lost.entry(id).or_default().extend(held.into_iter().map(bare));
        }
        // From here on, the keys of the lease, and operations on them, belong to nobody.
        self.ask_again(again);
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

    /// Removes what is left of leases that are over for others as well.
    pub(super) fn check_expiring(&mut self) {
        for id in self.leases.expired() {
            let held = self.held_under_lost.remove(&id);
            self.remove_all(held.unwrap_or_default());
        }
    }

    /// The locks and requests of these agents under a lease, as far as they are known. For each:
    /// whether it is held, its bucket and name, and the request to end.
    pub(super) fn had_under(
        &self,
        lease: i64,
        agents: &[AgentSerial],
    ) -> Vec<(Phase, u64, NameKey, Ended)> {
        let of = |serial| {
            self.leases.agents.get(serial).map(|agent: &Agent| (agent.bucket, agent.client_id))
        };
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
