//! Queries of a bucket in memory: snapshots, inspections and positions.

use navlock_engine::{QueuePosition, ResourceName, Snapshot};

use super::{MemoryBackend, agents::Agents};
use crate::{ClientId, Inspected, Inspection, LockInfo, LockManagerSnapshot, Position, sync::lock};

impl MemoryBackend {
    /// What is held and pending in the bucket, as `show` makes it of the shards' snapshots.
    pub(super) fn snapshot<T>(&self, show: impl FnOnce(&Agents, Vec<Snapshot>) -> T) -> T {
        let states = self.lock_all();
        let snapshots = states.iter().map(|state| state.locks.snapshot_lock_state()).collect();
        // No agent in the snapshots has been closed yet: to close an agent first ends what it has,
        // in the shards.
        let agents = lock(&self.agents);
        drop(states);
        show(&agents, snapshots)
    }

    /// What is held and pending of one name, as `show` makes it.
    pub(super) fn snapshot_of<T>(
        &self,
        name: &ResourceName,
        show: impl FnOnce(&Agents, Vec<Snapshot>) -> T,
    ) -> T {
        let state = self.shard_of(name).lock();
        let snapshot = state.locks.snapshot_of(name);
        let agents = lock(&self.agents);
        drop(state);
        show(&agents, vec![snapshot])
    }

    pub(super) fn position_of(&self, name: &ResourceName, client_id: ClientId) -> Position {
        let state = self.shard_of(name).lock();
        let agents = lock(&self.agents);
        let is_its = |agent| agents.client_id(agent) == Some(client_id);
        let QueuePosition { holder, holders, ahead } = state.locks.position(name, is_its);
        drop(state);
        let holder = holder.map(|holder| agents.inspected(holder));
        Position::new(holder, holders, ahead)
    }
}

impl Agents {
    pub(super) fn snapshot(&self, snapshots: Vec<Snapshot>) -> LockManagerSnapshot {
        let (held, pending) = each(snapshots, |info| self.info(info));
        LockManagerSnapshot::new(held, pending)
    }

    pub(super) fn inspection(&self, snapshots: Vec<Snapshot>) -> Inspection {
        let (held, pending) = each(snapshots, |info| self.inspected(info));
        Inspection::new(held, pending)
    }

    fn inspected(&self, info: navlock_engine::LockInfo) -> Inspected {
        let agent = self.described(info.agent);
        let mut inspected = Inspected::new(self.info(info));
        inspected.agent = agent;
        inspected
    }

    /// What is shown of a lock or request. Its agent has not been closed since the snapshot of the
    /// shard.
    fn info(&self, info: navlock_engine::LockInfo) -> LockInfo {
        LockInfo::new(info.name, info.mode, self.known[&info.agent].state.client_id())
    }
}

/// The held locks and the pending requests of all shards, each as `show` makes it.
fn each<T>(
    snapshots: Vec<Snapshot>,
    show: impl Fn(navlock_engine::LockInfo) -> T,
) -> (Vec<T>, Vec<T>) {
    let count = |of: fn(&Snapshot) -> usize| Vec::with_capacity(snapshots.iter().map(of).sum());
    let mut held = count(|snapshot| snapshot.held.len());
    let mut pending = count(|snapshot| snapshot.pending.len());
    for snapshot in snapshots {
        held.extend(snapshot.held.into_iter().map(&show));
        pending.extend(snapshot.pending.into_iter().map(&show));
    }
    (held, pending)
}
