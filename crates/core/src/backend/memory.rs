//! Locks of one process: the engine, in shards.
//!
//! A name always belongs to the same shard, and no algorithm but the snapshot and the end of an
//! agent looks at two names, so each shard is an engine of its own behind a mutex of its own. Both
//! exceptions take all shards that they concern, in order, so that what they see or do is one
//! moment: a snapshot all there are, the end of an agent those that it has asked.
//!
//! # Invariants
//!
//! - Nobody waits for a shard while holding a later one, or one of another bucket; but those who look
//!   (`looked`), one at a time.
//! - Wakers are called, and dropped, after the shard is unlocked: they are foreign code, and the
//!   last waker of a task may take the task and its guards along.

mod board;
mod looked;
mod nested;

use std::{
    collections::HashMap,
    future, panic,
    task::{Poll, Waker},
};

use foldhash::fast::RandomState;

use navlock_engine::{
    AgentId, Event, FencingToken, LockManager, Mode, NameHasher, Outcome, QueuePosition, RequestId,
    RequestKind, ResourceName, Snapshot, Status,
};

pub(crate) use self::board::{Board, Heard};
use self::{
    looked::{Looked, ShownAgents},
    nested::Nested,
};
use crate::{
    AgentInfo, ClientId, Error, Inspected, Inspection, LockInfo, LockManagerSnapshot, Lost,
    Position,
    agent::Agent,
    backend::{Answer, Backend, InspectFuture, PositionFuture, QueryFuture, Reach, Ticket},
    life::Life,
    look::{InDeadlock, LockId},
    sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, lock, shrink},
    waking::{wake, wake_all},
};

/// The reach of one process: makes the buckets of one user agent.
///
/// Each bucket it opens is new. Clones share one thing: the fencing tokens of their buckets go on
/// where those of the others' forgotten ones end.
#[derive(Clone, Debug)]
pub struct MemoryReach {
    /// The first fencing token of the next bucket that is opened: larger than all that were given
    /// in buckets that are gone, so that a bucket which comes back goes on.
    next_token: Arc<AtomicU64>,
    shards: usize,
}

impl Default for MemoryReach {
    fn default() -> Self {
        Self::with_first_token(FencingToken::new(1))
    }
}

impl MemoryReach {
    /// A reach whose first grant gets this token: for a daemon that goes on where an earlier one
    /// ended.
    pub fn with_first_token(token: FencingToken) -> Self {
        // Two threads with two names meet in one shard once in so many cases.
        let threads = std::thread::available_parallelism().map_or(4, usize::from);
        let shards = (8 * threads).next_power_of_two().clamp(16, 256);
        Self { next_token: Arc::new(AtomicU64::new(token.get())), shards }
    }

    /// The same with this many shards (at least one): a caller that is one thread needs just one.
    #[must_use]
    pub fn with_shards(mut self, shards: usize) -> Self {
        self.shards = shards.max(1);
        self
    }

    pub(crate) fn open_memory_bucket(&self) -> MemoryBackend {
        let first_token = FencingToken::new(self.next_token.load(Ordering::SeqCst));
        let hasher = NameHasher::default();
        MemoryBackend {
            shards: (0..self.shards).map(|_| Shard::new(&hasher, first_token)).collect(),
            hasher,
            agents: Mutex::default(),
            nested: Mutex::default(),
            deciding: Mutex::default(),
            next_token: Arc::clone(&self.next_token),
        }
    }
}

impl Reach for MemoryReach {
    fn open_bucket(&self, _name: &str) -> Box<dyn Backend> {
        Box::new(self.open_memory_bucket())
    }
}

/// The locks of one bucket, in memory.
#[derive(Debug)]
pub struct MemoryBackend {
    /// A name's shard is decided by its hash.
    shards: Box<[Shard]>,
    hasher: NameHasher,
    /// Locked after any shards, and before what follows.
    agents: Mutex<Agents>,
    /// Locked last, and only for requests that wait, and by those who look.
    nested: Mutex<Nested>,
    /// Locked before all others, by who decides whether a request fails in a deadlock.
    deciding: Mutex<()>,
    next_token: Arc<AtomicU64>,
}

/// The agents of a bucket.
#[derive(Debug, Default)]
struct Agents {
    known: HashMap<AgentId, Known, RandomState>,
    /// Where the search for the next number begins.
    next: u32,
    /// What agents have said of themselves, and who looks; if any have, or anybody does.
    shown: Option<Box<ShownAgents>>,
}

/// An agent, from its opening until it is closed.
#[derive(Debug)]
struct Known {
    /// Who it is.
    life: Arc<Life>,
    /// It gets nothing any more.
    ended: bool,
    /// The shards that it has asked. Only these know it, so that its end costs no more than what it
    /// has used, and while it has used none it is nothing but this.
    shards: Vec<u32>,
}

/// On a cache line of its own, so that one shard's mutex does not slow its neighbour's.
#[derive(Debug)]
#[repr(align(128))]
struct Shard {
    state: Mutex<State>,
    /// How many times locks were lost in it. Counted up under its lock, before anybody can be told.
    losses: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// In each request, whom to wake: while it is pending, on the grant; once it is a lock, when it
    /// is lost. Few are ever watched.
    locks: LockManager<Option<Waker>>,
    /// Locks that were stolen and whose holders have not finished yet, each with the thief.
    stolen: HashMap<RequestId, Option<ClientId>>,
    /// Agents whose handles are gone, and that had something here when they went; each until the
    /// last of that is finished.
    left: HashMap<AgentId, Arc<Agent>, RandomState>,
    /// If somebody looks: what is here, and where it is said what happens. Whatever changes `locks`
    /// says so before the shard is unlocked.
    looked: Option<Box<Looked>>,
}

impl Backend for MemoryBackend {
    fn lanes(&self) -> usize {
        self.shards.len()
    }

    fn open_agent(&self, client_id: ClientId) -> AgentId {
        self.open(&Life::new(Some(client_id)))
    }

    fn describe(&self, agent: AgentId, info: &AgentInfo) {
        lock(&self.agents).describe(agent, info);
    }

    fn close_agent(&self, agent: AgentId) {
        self.terminate(agent);
        // Last: from here on the number may be given to another.
        lock(&self.agents).close(agent);
    }

    fn terminate(&self, agent: AgentId) {
        self.terminate_all(&[agent]);
    }

    fn terminate_all(&self, agents: &[AgentId]) {
        // From here on no shard comes to know them that does not yet.
        let asked = lock(&self.agents).end(agents);
        // In order, and each shard once.
        let mut states: Vec<_> = asked
            .chunk_by(|a, b| a.0 == b.0)
            .map(|of_one_shard| (&self.shards[of_one_shard[0].0 as usize], of_one_shard))
            .map(|(shard, of_one_shard)| (shard, shard.lock(), of_one_shard))
            .collect();
        // What they have ends in all shards at one moment, then those are woken whom it concerns.
        let mut wakers = Vec::new();
        for (shard, state, agents) in &mut states {
            let agents: Vec<_> = agents.iter().map(|(_, agent)| *agent).collect();
            state.locks.terminate_remaining_locks_and_requests(&agents);
            shard.count_losses();
            state.take_events::<true>(None, &mut wakers);
            state.give_back_memory();
        }
        drop(states);
        wake_all(wakers);
    }

    #[inline]
    fn request(
        &self,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
        waker: &Waker,
    ) -> Result<(Ticket, Poll<Answer>), Error> {
        let hashed = self.hasher.hash(name);
        let lane = hashed.spread(self.shards.len());
        let shard = &self.shards[lane as usize];
        let mut state = shard.lock();
        if !state.locks.knows(agent) {
            // Under the lock of the shard: whoever ends the agent later looks into this one as well.
            lock(&self.agents).admit(agent, lane)?;
        }
        let (id, outcome) = state.locks.request_lock_hashed(agent, hashed, kind);
        let answer = match outcome {
            Outcome::Granted(token) => Poll::Ready(Answer::Granted(token)),
            Outcome::Unavailable => Poll::Ready(Answer::Unavailable),
            Outcome::Pending => {
                // Its place was nobody's, so there is no waker to be replaced; but cloning one is
                // foreign code. If it panics, nobody will ever own the request.
                let waits = panic::AssertUnwindSafe(|| state.wait(id, waker));
                if let Err(panicked) = panic::catch_unwind(waits) {
                    state.locks.finish(id);
                    panic::resume_unwind(panicked);
                }
                Poll::Pending
            }
        };
        // FAST: mostly nobody looks, and nothing was stolen.
        if state.looked.is_some() {
            self.tell_request(state, agent, name, kind.mode(), Ticket { lane, id }, answer);
        } else if state.locks.has_events() {
            // A theft: nobody else's request becomes of one.
            shard.count_losses();
            let thief = lock(&self.agents).client_id(agent);
            tell(state, thief);
        }
        Ok((Ticket { lane, id }, answer))
    }

    fn poll_request(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Answer, Error>> {
        self.poll(ticket, waker, false)
    }

    fn poll_lost(&self, ticket: Ticket, waker: &Waker) -> Poll<Lost> {
        let mut state = self.shard(ticket).lock();
        if state.locks.status(ticket.id) == Status::Gone {
            return Poll::Ready(state.how_lost(ticket.id));
        }
        let replaced = state.wait(ticket.id, waker);
        drop(state);
        drop(replaced);
        Poll::Pending
    }

    fn lost(&self, ticket: Ticket) -> Option<Lost> {
        let state = self.shard(ticket).lock();
        (state.locks.status(ticket.id) == Status::Gone).then(|| state.how_lost(ticket.id))
    }

    fn stolen_by(&self, ticket: Ticket) -> Option<ClientId> {
        self.shard(ticket).lock().stolen.get(&ticket.id).copied().flatten()
    }

    fn serial(&self, ticket: Ticket) -> u64 {
        self.serial_of(ticket)
    }

    fn put_inside(&self, ticket: Ticket, lock: LockId) {
        self.note_inside(ticket, lock);
    }

    fn note_may_give_up(&self, ticket: Ticket) {
        let mut state = self.shard(ticket).lock();
        state.locks.note_may_give_up(ticket.id);
        if let Some(looked) = &mut state.looked {
            looked.note_may_give_up(ticket.id);
        }
    }

    fn deadlock(&self, ticket: Ticket) -> Option<InDeadlock> {
        self.deadlock_of(ticket)
    }

    fn fail_in_deadlock(&self, ticket: Ticket) -> Option<InDeadlock> {
        self.decide_deadlock(ticket)
    }

    #[inline]
    fn finish(&self, ticket: Ticket) {
        self.finish_and(ticket, |_| {});
    }

    fn query(&self) -> QueryFuture<'_> {
        Box::pin(future::ready(Ok(self.snapshot(Agents::snapshot))))
    }

    fn inspect(&self, name: Option<ResourceName>) -> InspectFuture<'_> {
        let inspection = match name {
            // FAST: of one name, whatever else there is.
            Some(name) => self.snapshot_of(&name, Agents::inspection),
            None => self.snapshot(Agents::inspection),
        };
        Box::pin(future::ready(Ok(inspection)))
    }

    fn position(&self, name: ResourceName, client_id: ClientId) -> PositionFuture<'_> {
        Box::pin(future::ready(Ok(self.position_of(&name, client_id))))
    }

    fn raise_tokens(&self, least: FencingToken) -> bool {
        for shard in &self.shards {
            shard.lock().locks.raise_token(least);
        }
        true
    }

    fn retire(&self) {
        // Nothing happens here any more.
        lock(&self.agents).shown = None;
        for mut state in self.lock_all() {
            state.looked = None;
            let next_token = state.locks.next_token();
            self.next_token.fetch_max(next_token.get(), Ordering::SeqCst);
            // Nobody has anything. What is left is kept by threads, see `spare`.
            if state.locks.is_empty() {
                state.locks = LockManager::with_data(self.hasher.clone(), next_token);
            }
        }
    }
}

impl MemoryBackend {
    #[inline]
    fn shard(&self, ticket: Ticket) -> &Shard {
        &self.shards[ticket.lane as usize]
    }

    /// The answer to a request that was not answered at once. If the lock was granted, and it
    /// `is_watched`, the waker is from here on that of who waits for its loss.
    pub(crate) fn poll(
        &self,
        ticket: Ticket,
        waker: &Waker,
        is_watched: bool,
    ) -> Poll<Result<Answer, Error>> {
        let mut state = self.shard(ticket).lock();
        let (answer, waits) = match state.locks.status(ticket.id) {
            Status::Held(token) => (Poll::Ready(Ok(Answer::Granted(token))), is_watched),
            Status::Pending => (Poll::Pending, true),
            Status::Gone => {
                return Poll::Ready(Err(match state.how_lost(ticket.id) {
                    // It never got that far.
                    Lost::Terminated => Error::Terminated,
                    lost => lost.into(),
                }));
            }
        };
        let replaced = if waits { state.wait(ticket.id, waker) } else { None };
        drop(state);
        drop(replaced);
        answer
    }

    fn shard_of(&self, name: &ResourceName) -> &Shard {
        &self.shards[self.hasher.hash(name).spread(self.shards.len()) as usize]
    }

    /// How many times locks were lost in the shard of this ticket.
    #[inline]
    pub(crate) fn losses(&self, ticket: Ticket) -> u64 {
        self.shard(ticket).losses.load(Ordering::Acquire)
    }

    /// Ends a request or a lock of this agent. If it is gone, how it was lost.
    #[inline]
    pub(crate) fn finish_as(&self, agent: AgentId, ticket: Ticket) -> Option<Lost> {
        let (lost, done) = self.finish_and(ticket, |state| {
            // FAST: mostly handles outlive what was asked for through them.
            if state.left.is_empty() { None } else { state.let_go(agent) }
        });
        // Which may end it, and so come back here.
        drop(done);
        lost
    }

    /// Ends a request or a lock, and does something more before the shard is unlocked. If it is
    /// gone, how it was lost.
    #[inline]
    fn finish_and<T>(
        &self,
        ticket: Ticket,
        more: impl FnOnce(&mut State) -> T,
    ) -> (Option<Lost>, T) {
        let mut state = self.shard(ticket).lock();
        let ended = state.locks.finish(ticket.id);
        // What stood there to be woken is dropped below: that is foreign code as well.
        let (forgotten, lost) = match ended {
            Some(waker) => (waker, None),
            None => (None, Some(state.forget_loss(ticket.id))),
        };
        let more = more(&mut state);
        // FAST: mostly nobody looks, and nobody waits for it.
        if state.looked.is_some() {
            tell_end(state, ticket.id);
        } else if state.locks.has_events() {
            tell(state, None);
        } else {
            state.give_back_memory();
            drop(state);
        }
        drop(forgotten);
        (lost, more)
    }

    /// See [`Backend::open_agent`].
    pub(crate) fn open(&self, life: &Arc<Life>) -> AgentId {
        lock(&self.agents).open(life)
    }

    /// Keeps an agent that makes no requests any more, as long as it has something.
    pub(crate) fn leave(&self, agent: &Arc<Agent>) {
        let asked = lock(&self.agents).asked(agent.id);
        for shard in asked {
            let mut state = self.shards[shard as usize].lock();
            if state.locks.has_something(agent.id) {
                state.left.insert(agent.id, Arc::clone(agent));
            }
        }
    }

    /// Unlocks a shard that is looked at, in which this was asked for, and tells everybody whom that
    /// concerns.
    #[cold]
    #[inline(never)]
    fn tell_request(
        &self,
        mut state: MutexGuard<'_, State>,
        agent: AgentId,
        name: &ResourceName,
        mode: Mode,
        ticket: Ticket,
        answer: Poll<Answer>,
    ) {
        let asker = lock(&self.agents).client_id(agent);
        let mut wakers = Vec::new();
        if state.locks.has_events() {
            self.shard(ticket).count_losses();
            state.take_events::<true>(asker, &mut wakers);
            state.give_back_memory();
        }
        if let (Some(looked), Some(asker)) = (&mut state.looked, asker) {
            let token = match answer {
                Poll::Ready(Answer::Granted(token)) => Ok(Some(token)),
                Poll::Ready(Answer::Unavailable) => Err(()),
                Poll::Pending => Ok(None),
            };
            match token {
                Ok(token) => looked.requested(asker, name, mode, ticket.id, token),
                Err(()) => looked.unavailable(asker, name),
            }
        }
        drop(state);
        wake_all(wakers);
    }

    fn lock_all(&self) -> Vec<MutexGuard<'_, State>> {
        self.shards.iter().map(Shard::lock).collect()
    }

    /// What there is, shown so.
    fn snapshot<T>(&self, show: impl FnOnce(&Agents, &[Snapshot]) -> T) -> T {
        let states = self.lock_all();
        let snapshots: Vec<Snapshot> =
            states.iter().map(|state| state.locks.snapshot_lock_state()).collect();
        // An agent that has something is not closed before it has nothing, which needs the shards.
        let agents = lock(&self.agents);
        drop(states);
        show(&agents, &snapshots)
    }

    /// The same of one name.
    fn snapshot_of<T>(
        &self,
        name: &ResourceName,
        show: impl FnOnce(&Agents, &[Snapshot]) -> T,
    ) -> T {
        let state = self.shard_of(name).lock();
        let snapshot = state.locks.snapshot_of(name);
        let agents = lock(&self.agents);
        drop(state);
        show(&agents, &[snapshot])
    }

    fn position_of(&self, name: &ResourceName, client_id: ClientId) -> Position {
        let state = self.shard_of(name).lock();
        let agents = lock(&self.agents);
        let is_its = |agent| agents.client_id(agent) == Some(client_id);
        let QueuePosition { holder, holders, ahead } = state.locks.position(name, is_its);
        drop(state);
        let holder = holder.map(|holder| agents.inspected(&holder));
        Position::new(holder, holders, ahead)
    }
}

impl Agents {
    fn snapshot(&self, snapshots: &[Snapshot]) -> LockManagerSnapshot {
        let info = |info: &navlock_engine::LockInfo| self.info(info);
        LockManagerSnapshot::new(
            snapshots.iter().flat_map(|snapshot| &snapshot.held).map(info).collect(),
            snapshots.iter().flat_map(|snapshot| &snapshot.pending).map(info).collect(),
        )
    }

    fn inspection(&self, snapshots: &[Snapshot]) -> Inspection {
        let inspected = |info: &navlock_engine::LockInfo| self.inspected(info);
        Inspection::new(
            snapshots.iter().flat_map(|snapshot| &snapshot.held).map(inspected).collect(),
            snapshots.iter().flat_map(|snapshot| &snapshot.pending).map(inspected).collect(),
        )
    }

    fn inspected(&self, info: &navlock_engine::LockInfo) -> Inspected {
        let mut inspected = Inspected::new(self.info(info));
        inspected.agent = self.described(info.agent);
        inspected
    }

    /// What is shown of it. Its agent has not been closed since the shard was looked at.
    fn info(&self, info: &navlock_engine::LockInfo) -> LockInfo {
        LockInfo::new(info.name.clone(), info.mode, self.known[&info.agent].life.client_id())
    }

    fn open(&mut self, life: &Arc<Life>) -> AgentId {
        // Memory ends before there are 2^32 agents.
        let id = loop {
            let id = AgentId::from_index(self.next);
            self.next = self.next.wrapping_add(1);
            if !self.known.contains_key(&id) {
                break id;
            }
        };
        self.known.insert(id, Known { life: Arc::clone(life), ended: false, shards: Vec::new() });
        if self.shown.is_some() {
            self.tell_came(life);
        }
        id
    }

    fn client_id(&self, agent: AgentId) -> Option<ClientId> {
        Some(self.known.get(&agent)?.life.client_id())
    }

    /// Notes that the shard gets to know the agent.
    ///
    /// # Errors
    ///
    /// It has ended.
    #[cold]
    fn admit(&mut self, agent: AgentId, shard: u32) -> Result<(), Error> {
        let known = self.known.get_mut(&agent).filter(|known| !known.ended);
        let known = known.ok_or(Error::Terminated)?;
        // A host may have given up a request before the shard noted its agent.
        if !known.shards.contains(&shard) {
            known.shards.push(shard);
        }
        Ok(())
    }

    /// The shards that know the agent.
    fn asked(&self, agent: AgentId) -> Vec<u32> {
        self.known.get(&agent).map_or_else(Vec::new, |known| known.shards.clone())
    }

    /// Lets the agents get nothing any more. The shards that know them, in order, each with whom.
    fn end(&mut self, agents: &[AgentId]) -> Vec<(u32, AgentId)> {
        let mut asked = Vec::new();
        for agent in agents {
            if let Some(known) = self.known.get_mut(agent) {
                known.ended = true;
                asked.extend(known.shards.iter().map(|shard| (*shard, *agent)));
            }
        }
        asked.sort_unstable();
        asked
    }

    fn close(&mut self, agent: AgentId) {
        let Some(known) = self.known.remove(&agent) else { return };
        shrink(&mut self.known);
        if self.shown.is_some() {
            self.tell_went(agent, &known.life);
        }
    }
}

impl Shard {
    fn new(hasher: &NameHasher, first_token: FencingToken) -> Self {
        let state = Mutex::new(State {
            locks: LockManager::with_data(hasher.clone(), first_token),
            stolen: HashMap::new(),
            left: HashMap::default(),
            looked: None,
        });
        Self { state, losses: AtomicU64::new(0) }
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Locks of it are lost, or may be. To be called while it is locked, and before anybody is told.
    #[cold]
    fn count_losses(&self) {
        self.losses.fetch_add(1, Ordering::Release);
    }
}

impl State {
    /// Takes the next event of a command, and the waker of whom it concerns, if that waits.
    ///
    /// It was the command of `thief`, if it may have stolen anything.
    ///
    /// Who looks is told, unless it is known that nobody does.
    fn take_event<const LOOKED: bool>(&mut self, thief: Option<ClientId>) -> Option<Waker> {
        let (event, waker) = self.locks.poll_event_with_data()?;
        if let Event::Stolen(id) = event {
            self.stolen.insert(id, thief);
        }
        if let Some(looked) = self.looked.as_mut().filter(|_| LOOKED) {
            looked.happened(event, &self.locks, thief);
        }
        waker
    }

    /// Takes all of them, and the wakers of everybody whom they concern.
    fn take_events<const LOOKED: bool>(
        &mut self,
        thief: Option<ClientId>,
        wakers: &mut Vec<Waker>,
    ) {
        while self.locks.has_events() {
            wakers.extend(self.take_event::<LOOKED>(thief));
        }
    }

    /// Has this waker called when the pending request `id` is granted or ends, or when the lock that
    /// it is already is lost. The one it takes the place of, for the caller to drop once the shard
    /// is unlocked.
    fn wait(&mut self, id: RequestId, waker: &Waker) -> Option<Waker> {
        let place = self.locks.data(id)?;
        match place {
            Some(known) if known.will_wake(waker) => None,
            _ => place.replace(waker.clone()),
        }
    }

    /// How `id`, which is gone, was lost, for the last time that anybody asks.
    #[cold]
    fn forget_loss(&mut self, id: RequestId) -> Lost {
        let lost = self.how_lost(id);
        self.stolen.remove(&id);
        lost
    }

    /// Lets go of an agent whose handle is gone, if it has nothing any more: for the caller to drop
    /// once the shard is unlocked.
    #[cold]
    fn let_go(&mut self, agent: AgentId) -> Option<Arc<Agent>> {
        if self.locks.has_something(agent) {
            return None;
        }
        let done = self.left.remove(&agent);
        shrink(&mut self.left);
        done
    }

    /// How the request or lock `id`, which is gone, was lost.
    fn how_lost(&self, id: RequestId) -> Lost {
        if self.stolen.contains_key(&id) { Lost::Stolen } else { Lost::Terminated }
    }

    /// Returns what a peak of victims left allocated, once all of them know.
    #[inline]
    fn give_back_memory(&mut self) {
        const KEEP: usize = 1024;
        if self.stolen.capacity() > KEEP && self.stolen.is_empty() {
            self.stolen = HashMap::new();
        }
    }
}

/// Unlocks a shard at which nobody looks, and tells everybody whom its events concern.
#[cold]
#[inline(never)]
fn tell(mut state: MutexGuard<'_, State>, thief: Option<ClientId>) {
    let first = state.take_event::<false>(thief);
    if state.locks.has_events() {
        return tell_all(state, thief, first);
    }
    // FAST: mostly it is one, and there are no others to be kept for so long.
    state.give_back_memory();
    drop(state);
    if let Some(first) = first {
        wake(first);
    }
}

/// The same when `first` has been taken already.
#[cold]
#[inline(never)]
fn tell_all(mut state: MutexGuard<'_, State>, thief: Option<ClientId>, first: Option<Waker>) {
    let mut wakers = Vec::from_iter(first);
    state.take_events::<false>(thief, &mut wakers);
    state.give_back_memory();
    drop(state);
    wake_all(wakers);
}

/// Unlocks a shard that is looked at, in which this was ended, and tells everybody whom that concerns.
#[cold]
#[inline(never)]
fn tell_end(mut state: MutexGuard<'_, State>, id: RequestId) {
    let mut wakers = Vec::new();
    if let Some(looked) = &mut state.looked {
        looked.finished(id);
    }
    state.take_events::<true>(None, &mut wakers);
    state.give_back_memory();
    drop(state);
    wake_all(wakers);
}
