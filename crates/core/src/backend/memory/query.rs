//! Queries of a bucket in memory: snapshots, inspections and positions.

use navlock_engine::{EntryRef, QueuePosition, ResourceName};

use super::{MemoryBackend, agents::Agents, shard::State};
use crate::{ClientId, Inspected, LockInfo, Position, sync::lock};

/// What is held, and what is pending.
type Lists<T> = (Vec<T>, Vec<T>);

impl MemoryBackend {
    /// What is held and pending, in the bucket or of one name, each entry as `show` makes it. The shards stay locked
    /// until the lists are made, because the entries borrow from them.
    pub(super) fn snapshot<T>(
        &self,
        name: Option<&ResourceName>,
        show: impl Fn(&Agents, &State, EntryRef<'_>) -> T,
    ) -> Lists<T> {
        let (mut held, mut pending) = (Vec::new(), Vec::new());
        let states = match name {
            // FAST: the cost depends on this name only.
            Some(name) => vec![self.shard_of(name).lock()],
            None => self.lock_all(),
        };
        // No agent of an entry has been closed yet: to close an agent first ends what it has, in the
        // shards.
        let agents = lock(&self.agents);
        for state in &states {
            for entry in state.entries(name) {
                let list = if entry.is_held { &mut held } else { &mut pending };
                list.push(show(&agents, state, entry));
            }
        }
        (held, pending)
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
