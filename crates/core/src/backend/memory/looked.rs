//! What is kept of a bucket while somebody looks at it, and what those are told who do.
//!
//! The engine knows neither the time nor, of what is gone, what it was. So a shard that is looked at has a
//! table beside it of what is in there. It is made with the first picture, and dropped with the last looker:
//! until then and from then on a request costs one look at whether it is there.

use std::{collections::HashMap, sync::Arc, time::Instant};

use foldhash::fast::RandomState;
use navlock_engine::{
    AgentId, Event, FencingToken, LockInfo, LockManager, Mode, RequestId, Status,
};

use super::{
    Agents, MemoryBackend, State,
    board::Board,
    nested::{Nested, Noted},
};
use crate::{
    AgentInfo, ClientId, Lost, ResourceName,
    backend::Ticket,
    life::Life,
    look::{Agent, Change, Entry, LockId, LockName, LookOptions},
    sync::{MutexGuard, lock, shrink},
};

/// Of a shard that is looked at: what is in there, and where it is said what happens.
#[derive(Debug)]
pub(super) struct Looked {
    by: LookedBy,
    /// The lane of the shard, and how many there are.
    lane: (u32, usize),
    entries: HashMap<RequestId, (LockName, Entry), RandomState>,
}

/// By how many something is looked at, and where they are told.
#[derive(Debug)]
struct LookedBy {
    board: Arc<Board>,
    bucket: Arc<str>,
    lookers: usize,
}

/// Of the agents of a bucket.
#[derive(Debug, Default)]
pub(super) struct ShownAgents {
    /// What those say of themselves that do.
    infos: HashMap<AgentId, Arc<AgentInfo>, RandomState>,
    looked: Option<LookedBy>,
}

/// A bucket of which nothing changes that somebody wants to see, for as long as this is there.
///
/// Whoever has several has them one after the other, and nobody else has: so no two wait for each other.
pub(crate) struct Still<'a> {
    memory: &'a MemoryBackend,
    states: Vec<(u32, MutexGuard<'a, State>)>,
    agents: MutexGuard<'a, Agents>,
}

impl LookedBy {
    fn new(board: &Arc<Board>, bucket: &Arc<str>) -> Self {
        Self { board: Arc::clone(board), bucket: Arc::clone(bucket), lookers: 0 }
    }

    fn agent_came(&self, client_id: ClientId, info: Arc<AgentInfo>) {
        let details = Agent::new(Arc::clone(&self.bucket), info, None);
        self.board.tell(&self.bucket, |_| Change::AgentCame { agent: client_id, details });
    }

    fn agent_went(&self, client_id: ClientId) {
        self.board.tell(&self.bucket, |_| Change::AgentWent { agent: client_id });
    }
}

/// FAST: out of the way of those who lock while nobody looks.
impl Looked {
    fn lock_id(&self, client_id: ClientId, id: RequestId) -> LockId {
        let (lane, lanes) = self.lane;
        LockId { client_id, serial: serial(Ticket { lane, id }, lanes) }
    }

    /// A request waits, or is a lock at once if it has a token.
    #[cold]
    #[inline(never)]
    pub(super) fn requested(
        &mut self,
        client_id: ClientId,
        name: &ResourceName,
        mode: Mode,
        id: RequestId,
        token: Option<FencingToken>,
    ) {
        let lock_id = self.lock_id(client_id, id);
        let Self { by: LookedBy { board, bucket, .. }, entries, .. } = self;
        let name = LockName::new(Arc::clone(bucket), name.clone());
        board.tell(bucket, |now| {
            let mut entry = Entry::new(lock_id, mode);
            (entry.since, entry.token) = (now, token);
            entries.insert(id, (name.clone(), entry.clone()));
            match token {
                Some(_) => Change::Granted { name, entry },
                None => Change::Requested { name, entry },
            }
        });
    }

    /// A lock could not be had at once.
    #[cold]
    #[inline(never)]
    pub(super) fn unavailable(&self, client_id: ClientId, name: &ResourceName) {
        let LookedBy { board, bucket, .. } = &self.by;
        let name = LockName::new(Arc::clone(bucket), name.clone());
        board.tell(bucket, |_| Change::Unavailable { name, agent: client_id });
    }

    /// A request or lock was ended by whose it was; nothing, if it was gone before.
    #[cold]
    #[inline(never)]
    pub(super) fn finished(&mut self, id: RequestId) {
        let Some((name, Entry { id, token, .. })) = self.forget(id) else { return };
        let LookedBy { board, bucket, .. } = &self.by;
        board.tell(bucket, |_| match token {
            Some(_) => Change::Released { name, id },
            None => Change::Aborted { name, id },
        });
    }

    /// What the engine says has happened. If something was stolen, `thief` has stolen it.
    #[cold]
    #[inline(never)]
    pub(super) fn happened<T>(
        &mut self,
        event: Event,
        locks: &LockManager<T>,
        thief: Option<ClientId>,
    ) {
        match event {
            Event::Granted(id) => {
                let Status::Held(token) = locks.status(id) else { return };
                let Self { by: LookedBy { board, bucket, .. }, entries, .. } = self;
                let Some((name, entry)) = entries.get_mut(&id) else { return };
                board.tell(bucket, |now| {
                    (entry.since, entry.is_older, entry.token) = (now, false, Some(token));
                    entry.may_give_up = false;
                    Change::Granted { name: name.clone(), entry: entry.clone() }
                });
            }
            Event::Stolen(id) => self.lost(id, Lost::Stolen, thief),
            Event::Terminated(id) => self.lost(id, Lost::Terminated, None),
            // Others are told by what a request returns.
            _ => {}
        }
    }

    fn lost(&mut self, id: RequestId, how: Lost, by: Option<ClientId>) {
        let Some((name, Entry { id, token, .. })) = self.forget(id) else { return };
        let LookedBy { board, bucket, .. } = &self.by;
        board.tell(bucket, |_| match token {
            Some(_) => Change::Lost { name, id, how, by },
            None => Change::Aborted { name, id },
        });
    }

    /// It is known now that a request was made inside this lock as well.
    pub(super) fn put_inside(&mut self, id: RequestId, inside: LockId) {
        let Self { by: LookedBy { board, bucket, .. }, entries, .. } = self;
        let Some((name, entry)) = entries.get_mut(&id) else { return };
        if entry.token.is_none() && !entry.inside.contains(&inside) {
            entry.inside.push(inside);
            let (name, entry) = (name.clone(), entry.clone());
            board.tell(bucket, |_| Change::Requested { name, entry });
        }
    }

    /// It is known now that a request may give up by itself.
    pub(super) fn note_may_give_up(&mut self, id: RequestId) {
        let Self { by: LookedBy { board, bucket, .. }, entries, .. } = self;
        let Some((name, entry)) = entries.get_mut(&id) else { return };
        if entry.token.is_none() && !entry.may_give_up {
            entry.may_give_up = true;
            let (name, entry) = (name.clone(), entry.clone());
            board.tell(bucket, |_| Change::Requested { name, entry });
        }
    }

    fn forget(&mut self, id: RequestId) -> Option<(LockName, Entry)> {
        let forgotten = self.entries.remove(&id);
        shrink(&mut self.entries);
        forgotten
    }
}

impl MemoryBackend {
    /// Has all agents called somehow, as most are not until somebody wants to see them: while nothing is
    /// locked, as it takes a while.
    pub(crate) fn name_agents(&self) {
        let lives: Vec<_> = {
            let agents = lock(&self.agents);
            agents.known.values().map(|known| known.life.clone()).collect()
        };
        for life in lives {
            life.client_id();
        }
    }

    /// Has nothing change that is wanted. To be called with all buckets of the user agent locked.
    pub(crate) fn hold_still(&self, wants: &LookOptions) -> Still<'_> {
        let lane = |name| self.hasher.hash(name).spread(self.shards.len());
        let lanes = match wants.name.as_ref().map(lane) {
            Some(lane) => lane..lane + 1,
            None => 0..u32::try_from(self.shards.len()).unwrap_or(u32::MAX),
        };
        let states = lanes.map(|lane| (lane, self.shards[lane as usize].lock())).collect();
        Still { memory: self, states, agents: lock(&self.agents) }
    }
}

impl Still<'_> {
    /// Begins to note and to tell what happens. To be called once for each who begins to look.
    pub(crate) fn begin(&mut self, board: &Arc<Board>, bucket: &Arc<str>, now: Instant) {
        let Self { memory, states, agents } = self;
        let shown = agents.shown.get_or_insert_default();
        let by = shown.looked.get_or_insert_with(|| LookedBy::new(board, bucket));
        by.lookers += 1;
        // From here on what is noted there is told as well.
        let mut nested = lock(&memory.nested);
        nested.looked += 1;
        for (lane, state) in states {
            if state.looked.is_none() {
                let by = LookedBy::new(board, bucket);
                let lane = (*lane, memory.shards.len());
                let mut looked = Looked { by, lane, entries: HashMap::default() };
                looked.entries = state.shown(None, lane, bucket, agents, &nested, now).collect();
                state.looked = Some(Box::new(looked));
            }
            if let Some(looked) = &mut state.looked {
                looked.by.lookers += 1;
            }
        }
    }

    /// Ends that, if nobody else looks. What is left is to be dropped when nothing is locked any more: it
    /// may be much.
    pub(crate) fn end(&mut self) -> impl Sized + use<> {
        let mut left = Vec::new();
        for (_, state) in &mut self.states {
            if let Some(looked) = &mut state.looked {
                looked.by.lookers -= 1;
                if looked.by.lookers == 0 {
                    left.extend(state.looked.take());
                }
            }
        }
        if let Some(ShownAgents { infos, looked }) = self.agents.shown.as_deref_mut() {
            if let Some(by) = looked {
                lock(&self.memory.nested).looked -= 1;
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

    /// What there is, as it would be told if it came to be now.
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
                Change::AgentCame { agent: known.life.client_id(), details }
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
    /// What is in this shard, of one name or of all: of each name first its locks and then its queue, each
    /// in order.
    fn shown(
        &self,
        name: Option<&ResourceName>,
        lane: (u32, usize),
        bucket: &Arc<str>,
        agents: &Agents,
        nested: &Nested,
        now: Instant,
    ) -> impl Iterator<Item = (RequestId, (LockName, Entry))> {
        let snapshot = match name {
            Some(name) => self.locks.snapshot_of(name),
            None => self.locks.snapshot_lock_state(),
        };
        snapshot.held.into_iter().chain(snapshot.pending).filter_map(move |info| {
            let LockInfo { name, mode, agent, id } = info;
            let known = self.looked.as_ref().and_then(|looked| looked.entries.get(&id));
            if let Some(known) = known {
                return Some((id, known.clone()));
            }
            let ticket = Ticket { lane: lane.0, id };
            let lock_id =
                LockId { client_id: agents.client_id(agent)?, serial: serial(ticket, lane.1) };
            let mut entry = Entry::new(lock_id, mode);
            (entry.since, entry.is_older) = (now, true);
            entry.may_give_up = self.locks.may_give_up(id);
            match self.locks.status(id) {
                Status::Held(token) => entry.token = Some(token),
                _ => {
                    if let Some(Noted { inside, number, .. }) = nested.of(ticket) {
                        entry.inside.clone_from(inside);
                        // In the order in which they were noted.
                        entry.since = nested.before(now, *number);
                    }
                }
            }
            Some((id, (LockName::new(Arc::clone(bucket), name), entry)))
        })
    }
}

impl Agents {
    /// What an agent has said of itself, if it has.
    pub(super) fn described(&self, agent: AgentId) -> Option<Arc<AgentInfo>> {
        self.shown.as_ref()?.infos.get(&agent).cloned()
    }

    /// Notes what an agent says of itself.
    pub(super) fn describe(&mut self, agent: AgentId, info: &AgentInfo) {
        let Some(known) = self.known.get(&agent) else { return };
        // What a host says for others it knows itself.
        if known.life.is_elsewhere() {
            return;
        }
        let info = Arc::new(info.clone());
        let shown = self.shown.get_or_insert_default();
        shown.infos.insert(agent, Arc::clone(&info));
        if let Some(looked) = &shown.looked {
            looked.agent_came(known.life.client_id(), info);
        }
    }

    #[cold]
    pub(super) fn tell_came(&self, life: &Life) {
        if let Some(looked) = self.shown.as_ref().and_then(|shown| shown.looked.as_ref()) {
            looked.agent_came(life.client_id(), Arc::default());
        }
    }

    #[cold]
    pub(super) fn tell_went(&mut self, agent: AgentId, life: &Life) {
        let Some(ShownAgents { infos, looked }) = self.shown.as_deref_mut() else { return };
        infos.remove(&agent);
        shrink(infos);
        if let Some(looked) = looked {
            looked.agent_went(life.client_id());
        }
    }
}

/// The number of a request among all that its agent has asked for in this bucket.
pub(super) fn serial(ticket: Ticket, lanes: usize) -> u64 {
    // Serial numbers are those of a shard. They would have to be made for centuries for this to be
    // another's.
    let lanes = u64::try_from(lanes).unwrap_or(u64::MAX);
    ticket.id.serial().wrapping_mul(lanes).wrapping_add(ticket.lane.into())
}
