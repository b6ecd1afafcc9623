//! Frozen buckets: all wanted shards of a bucket are locked while a picture of it is taken.

use std::{collections::HashMap, sync::Arc, time::Instant};

use navlock_engine::{EntryRef, RequestId, Status};

use super::{
    MemoryBackend,
    agents::Agents,
    board::Board,
    look_table::{LookTable, LookedBy, ShownAgents, serial},
    nested::{Nested, Noted},
    shard::State,
};
use crate::{
    ResourceName,
    backend::Ticket,
    look::{Agent, Change, Entry, LockId, LockName, LookOptions},
    sync::{MutexGuard, lock},
};

/// A bucket whose wanted shards are locked for as long as this exists.
///
/// Only one thread at a time freezes buckets, one after the other, so no two threads wait for each other.
pub(crate) struct FrozenBucket<'a> {
    memory: &'a MemoryBackend,
    states: Vec<(u32, MutexGuard<'a, State>)>,
    agents: MutexGuard<'a, Agents>,
}

impl MemoryBackend {
    /// Makes the client ids of all agents. Most agents have none before somebody wants to see it.
    /// This takes a while, so no shard is locked meanwhile.
    pub(crate) fn name_agents(&self) {
        let states: Vec<_> = {
            let agents = lock(&self.agents);
            agents.known.values().map(|known| known.state.clone()).collect()
        };
        for state in states {
            state.client_id();
        }
    }

    /// Locks all wanted shards. To be called with the user agent's table of buckets locked.
    pub(crate) fn freeze(&self, wants: &LookOptions) -> FrozenBucket<'_> {
        let lane = |name| self.hasher.hash(name).spread(self.shards.len());
        let lanes = match wants.name.as_ref().map(lane) {
            Some(lane) => lane..lane + 1,
            None => 0..u32::try_from(self.shards.len()).unwrap_or(u32::MAX),
        };
        let states = lanes.map(|lane| (lane, self.shards[lane as usize].lock())).collect();
        FrozenBucket { memory: self, states, agents: lock(&self.agents) }
    }
}

impl FrozenBucket<'_> {
    /// Begins to note and tell events. To be called once for each looker that begins.
    pub(crate) fn begin(&mut self, board: &Arc<Board>, bucket: &Arc<str>, now: Instant) {
        let Self { memory, states, agents } = self;
        let shown = agents.shown.get_or_insert_default();
        let by = shown.looked.get_or_insert_with(|| LookedBy::new(board, bucket));
        by.lookers += 1;
        // From here on, lookers are told of new notes in `nested` as well.
        let mut nested = lock(&memory.nested);
        nested.lookers += 1;
        for (lane, state) in states {
            if state.look_table.is_none() {
                let by = LookedBy::new(board, bucket);
                let lane = (*lane, memory.shards.len());
                let mut table = LookTable { by, lane, entries: HashMap::default() };
                table.entries = state.shown(None, lane, bucket, agents, &nested, now).collect();
                state.look_table = Some(Box::new(table));
            }
            if let Some(table) = &mut state.look_table {
                table.by.lookers += 1;
            }
        }
    }

    /// Stops telling one looker of events. If this was the last looker, returns the tables, which
    /// the caller drops when nothing is locked any more, because they may be large.
    pub(crate) fn end(&mut self) -> impl Sized + use<> {
        let mut left = Vec::new();
        for (_, state) in &mut self.states {
            if let Some(table) = &mut state.look_table {
                table.by.lookers -= 1;
                if table.by.lookers == 0 {
                    left.extend(state.look_table.take());
                }
            }
        }
        if let Some(ShownAgents { infos, looked }) = self.agents.shown.as_deref_mut() {
            if let Some(by) = looked {
                lock(&self.memory.nested).lookers -= 1;
                by.lookers -= 1;
                if by.lookers == 0 {
                    *looked = None;
                }
            }
            if looked.is_none() && infos.is_empty() {
                self.agents.shown = None;
            }
        }
        left
    }

    /// The entries of the bucket, as events.
    pub(crate) fn picture(
        &self,
        wants: &LookOptions,
        bucket: &Arc<str>,
        now: Instant,
    ) -> Vec<Change> {
        let Self { memory, states, agents } = self;
        let mut picture: Vec<_> = agents
            .known
            .iter()
            .map(|(agent, known)| {
                let info = agents.described(*agent).unwrap_or_default();
                let details = Agent::new(Arc::clone(bucket), info, None);
                Change::AgentCame { agent: known.state.client_id(), details }
            })
            .collect();
        let nested = lock(&memory.nested);
        for (lane, state) in states {
            let lane = (*lane, memory.shards.len());
            let shown = state.shown(wants.name.as_ref(), lane, bucket, agents, &nested, now);
            picture.extend(shown.map(|(_, (name, entry))| match entry.token {
                Some(_) => Change::Granted { name, entry },
                None => Change::Requested { name, entry },
            }));
        }
        picture
    }
}

impl State {
    /// The entries of this shard, of one name or of all. For each name, its locks come first and then its
    /// queue, both in order.
    fn shown(
        &self,
        name: Option<&ResourceName>,
        lane: (u32, usize),
        bucket: &Arc<str>,
        agents: &Agents,
        nested: &Nested,
        now: Instant,
    ) -> impl Iterator<Item = (RequestId, (LockName, Entry))> {
        self.entries(name).filter_map(move |entry| {
            let EntryRef { name, mode, agent, id, .. } = entry;
            let known = self.look_table.as_ref().and_then(|table| table.entries.get(&id));
            if let Some(known) = known {
                return Some((id, known.clone()));
            }
            let ticket = Ticket { lane: lane.0, id };
            let lock_id =
                LockId { client_id: agents.client_id(agent)?, serial: serial(ticket, lane.1) };
            let mut entry = Entry::new(lock_id, mode);
            (entry.since, entry.is_older) = (now, true);
            entry.patience = self.locks.patience(id);
            entry.why = self.whys.get(&id).cloned();
            match self.locks.status(id) {
                Status::Held(token) => entry.token = Some(token),
                _ => {
                    if let Some(Noted { inside, number, .. }) = nested.of(ticket) {
                        entry.inside.clone_from(inside);
                        // The moments of such requests are in the order of the notes.
                        entry.since = nested.before(now, *number);
                    }
                }
            }
            Some((id, (LockName::new(Arc::clone(bucket), name.clone()), entry)))
        })
    }
}
