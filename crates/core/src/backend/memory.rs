//! Locks of one process: the engine, in shards.
//!
//! A name always belongs to the same shard, and only two algorithms look at several names: the
//! snapshot and the end of an agent. So each shard is an engine of its own behind a mutex of its own.
//! The two exceptions lock several shards in order, so that they happen at one moment: a snapshot
//! locks all shards, and the end of an agent those that the agent has asked.
//!
//! # Invariants
//!
//! - No thread waits for a shard while it has locked a later shard, or a shard of another bucket.
//!   The only exception are lookers (`frozen`), of which only one at a time locks shards.
//! - Wakers are called, and dropped, after the shard is unlocked: they are the caller's code, and to drop
//!   the last waker of a task may drop the task with its guards.

mod agents;
mod board;
mod deadlock;
mod frozen;
mod look_table;
mod nested;
mod query;
mod reach;
mod shard;

use std::{
    future, panic,
    task::{Poll, Waker},
};

use navlock_engine::{
    AgentId, FencingToken, LockManager, Mode, NameHasher, Outcome, RequestKind, ResourceName,
    Status,
};

pub(crate) use self::board::{Board, Heard, Reader};
pub use self::reach::MemoryReach;
use self::{
    agents::Agents,
    nested::Nested,
    shard::{Shard, State, tell, tell_end},
};
use crate::{
    AgentInfo, ClientId, Error, Inspection, LockManagerSnapshot, Lost,
    agent_state::{AgentState, KeptAgent},
    backend::{
        Answer, Backend, InspectFuture, PositionFuture, QueryFuture, RequestDetails, Ticket,
    },
    look::{InDeadlock, LockId, Patience},
    sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, lock},
    waking::wake_all,
};

/// The locks of one bucket, in memory.
#[derive(Debug)]
pub struct MemoryBackend {
    /// A name's shard is decided by its hash.
    shards: Box<[Shard]>,
    hasher: NameHasher,
    /// Locked after any shards, and before `nested`.
    agents: Mutex<Agents>,
    /// Which requests wait inside which locks. Locked last, and only for requests that wait, and by
    /// those who look.
    nested: Mutex<Nested>,
    /// Locked before all others, by a thread that decides whether a request fails in a deadlock.
    deciding: Mutex<()>,
    next_token: Arc<AtomicU64>,
}

impl Backend for MemoryBackend {
    fn lanes(&self) -> usize {
        self.shards.len()
    }

    fn open_agent(&self, client_id: ClientId) -> AgentId {
        self.open(&AgentState::new(Some(client_id)))
    }

    fn describe(&self, agent: AgentId, info: &AgentInfo) {
        lock(&self.agents).describe(agent, info);
    }

    fn close_agent(&self, agent: AgentId) {
        self.terminate(agent);
        // This comes last, because from here on another agent may get the number.
        lock(&self.agents).close(agent);
    }

    fn terminate(&self, agent: AgentId) {
        self.terminate_all(&[agent]);
    }

    fn terminate_all(&self, agents: &[AgentId]) {
        // From here on no further shard gets to know these agents.
        let asked = lock(&self.agents).end(agents);
        // The shards are locked in order, and each one once.
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
        details: RequestDetails<'_>,
        waker: &Waker,
    ) -> Result<(Ticket, Poll<Answer>), Error> {
        let hashed = self.hasher.hash(name);
        let lane = hashed.spread(self.shards.len());
        let shard = &self.shards[lane as usize];
        let mut state = shard.lock();
        if !state.locks.knows(agent) {
            // The shard stays locked meanwhile, so that whoever ends the agent later looks into
            // this shard as well.
            lock(&self.agents).admit(agent, lane)?;
        }
        let (id, outcome) = state.locks.request_lock_hashed(agent, hashed, kind);
        let answer = match outcome {
            Outcome::Granted(token) => Poll::Ready(Answer::Granted(token)),
            Outcome::Unavailable => Poll::Ready(Answer::Unavailable),
            Outcome::Pending => {
                // The request is new, so it has no waker yet that would be replaced. But to clone a
                // waker calls the caller's code: if that panics, nobody will ever own the request.
                let waits = panic::AssertUnwindSafe(|| state.wait(id, waker));
                if let Err(panicked) = panic::catch_unwind(waits) {
                    state.locks.finish(id);
                    panic::resume_unwind(panicked);
                }
                Poll::Pending
            }
        };
        // FAST: few requests say what they are for.
        if !details.why.is_empty() && answer != Poll::Ready(Answer::Unavailable) {
            state.whys.insert(id, details.why.into());
        }
        // FAST: mostly nobody looks, and nothing was stolen.
        if state.look_table.is_some() {
            self.tell_request(state, agent, name, kind.mode(), Ticket { lane, id }, answer);
        } else if state.locks.has_events() {
            // Something was stolen: only a request that steals leaves losses behind.
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

    fn note_patience(&self, ticket: Ticket, patience: Patience) {
        self.note_how_long(ticket, patience);
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
        let (held, pending) = self.snapshot(None, |agents, _, entry| agents.info(entry));
        Box::pin(future::ready(Ok(LockManagerSnapshot::new(held, pending))))
    }

    fn inspect(&self, name: Option<ResourceName>) -> InspectFuture<'_> {
        let (held, pending) = self.snapshot(name.as_ref(), Agents::inspected);
        Box::pin(future::ready(Ok(Inspection::new(held, pending))))
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
        // Nothing happens in this bucket any more.
        lock(&self.agents).shown = None;
        for mut state in self.lock_all() {
            state.look_table = None;
            let next_token = state.locks.next_token();
            self.next_token.fetch_max(next_token.get(), Ordering::SeqCst);
            // No locks and requests are left. Only the caches of threads keep the bucket now; see
            // `guard_cache`.
            if state.locks.is_empty() {
                state.whys.clear();
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

    /// The answer to a request that was not answered at once. If the lock was granted, and
    /// `is_watched` is set, the waker is called when the lock is lost.
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

    /// Ends a request or a lock of this agent. If it is gone already, returns how it was lost.
    #[inline]
    pub(crate) fn finish_as(&self, agent: AgentId, ticket: Ticket) -> Option<Lost> {
        let (lost, done) = self.finish_and(ticket, |state| {
            // FAST: mostly handles outlive their locks and requests.
            if state.left.is_empty() { None } else { state.let_go(agent) }
        });
        // To drop this may end the agent, and the end of an agent calls this backend again.
        drop(done);
        lost
    }

    /// Ends a request or a lock, and does something more before the shard is unlocked. If it is
    /// gone already, returns how it was lost.
    #[inline]
    fn finish_and<T>(
        &self,
        ticket: Ticket,
        more: impl FnOnce(&mut State) -> T,
    ) -> (Option<Lost>, T) {
        let mut state = self.shard(ticket).lock();
        let ended = state.locks.finish(ticket.id);
        // The waker is dropped below, when the shard is unlocked, because dropping it calls the
        // caller's code as well.
        let (forgotten, lost) = match ended {
            Some(waker) => (waker, None),
            None => (None, Some(state.forget_loss(ticket.id))),
        };
        if !state.whys.is_empty() {
            state.forget_why(ticket.id);
        }
        let more = more(&mut state);
        // FAST: mostly nobody looks, and nobody waits for it.
        if state.look_table.is_some() {
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
    pub(crate) fn open(&self, state: &Arc<AgentState>) -> AgentId {
        lock(&self.agents).open(state)
    }

    /// Keeps an agent without a handle alive, by the value of `keep`, for as long as the agent has locks or
    /// requests.
    pub(crate) fn leave(&self, agent: AgentId, keep: impl Fn() -> KeptAgent) {
        let asked = lock(&self.agents).asked(agent);
        for shard in asked {
            let mut state = self.shards[shard as usize].lock();
            if state.locks.has_something(agent) {
                state.left.insert(agent, keep());
            }
        }
    }

    /// Tells lookers the outcome of a request, and unlocks the shard.
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
        let why = state.whys.get(&ticket.id).cloned();
        if let (Some(table), Some(asker)) = (&mut state.look_table, asker) {
            let token = match answer {
                Poll::Ready(Answer::Granted(token)) => Ok(Some(token)),
                Poll::Ready(Answer::Unavailable) => Err(()),
                Poll::Pending => Ok(None),
            };
            match token {
                Ok(token) => table.requested(asker, name, mode, ticket.id, token, why),
                Err(()) => table.unavailable(asker, name),
            }
        }
        drop(state);
        wake_all(wakers);
    }

    fn lock_all(&self) -> Vec<MutexGuard<'_, State>> {
        self.shards.iter().map(Shard::lock).collect()
    }
}
