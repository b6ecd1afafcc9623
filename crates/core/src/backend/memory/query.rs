//! Queries of a bucket in memory: snapshots, inspections and positions.

use navlock_engine::{EntryRef, QueuePosition, ResourceName};

use super::{MemoryBackend, agents::Agents, shard::State};
use crate::{ClientId, Inspected, LockInfo, Position, sync::lock};

/// What is held, and what is pending.
type Lists<T> = (Vec<T>, Vec<T>);

impl MemoryBackend {
    /// What is held and pending in the bucket, each entry as `show` makes it. All shards stay locked until the
    /// lists are made, because the entries borrow from them.
    pub(super) fn snapshot<T>(
        &self,
        show: impl Fn(&Agents, &State, EntryRef<'_>) -> T,
    ) -> Lists<T> {
        let mut lists = (Vec::new(), Vec::new());
        let states = self.lock_all();
        // No agent of an entry has been closed yet: to close an agent first ends what it has, in the
        // shards.
        let agents = lock(&self.agents);
        for state in &states {
            let entries = state.locks.snapshot_lock_state();
            list(entries, |entry| show(&agents, state, entry), &mut lists);
        }
        lists
    }

    /// What is held and pending of one name, each entry as `show` makes it.
    pub(super) fn snapshot_of<T>(
        &self,
        name: &ResourceName,
        show: impl Fn(&Agents, &State, EntryRef<'_>) -> T,
    ) -> Lists<T> {
        let mut lists = (Vec::new(), Vec::new());
        let state = self.shard_of(name).lock();
        let agents = lock(&self.agents);
        list(state.locks.snapshot_of(name), |entry| show(&agents, &state, entry), &mut lists);
        lists
    }

    pub(super) fn position_of(&self, name: &ResourceName, client_id: ClientId) -> Position {
        let state = self.shard_of(name).lock();
        let agents = lock(&self.agents);
        let is_its = |agent| agents.client_id(agent) == Some(client_id);
        let QueuePosition { holder, holders, ahead } = state.locks.position(name, is_its);
        Position::new(holder.map(|holder| agents.inspected(&state, holder)), holders, ahead)
    }
}

impl Agents {
    pub(super) fn inspected(&self, state: &State, entry: EntryRef<'_>) -> Inspected {
        let mut inspected = Inspected::new(self.info(entry));
        inspected.agent = self.described(entry.agent);
        if let Some(why) = state.whys.get(&entry.id) {
            inspected.set_why(why);
        }
        inspected
    }

    /// What is shown of a lock or request. Its agent has not been closed.
    pub(super) fn info(&self, entry: EntryRef<'_>) -> LockInfo {
        let client_id = self.known[&entry.agent].state.client_id();
        LockInfo::new(entry.name.clone(), entry.mode, client_id)
    }
}

/// Adds the entries to the two lists, each as `show` makes it.
fn list<'a, T>(
    entries: impl Iterator<Item = EntryRef<'a>>,
    show: impl Fn(EntryRef<'a>) -> T,
    (held, pending): &mut Lists<T>,
) {
    for entry in entries {
        if entry.is_held { &mut *held } else { &mut *pending }.push(show(entry));
    }
}
