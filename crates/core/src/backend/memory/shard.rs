//! One shard: an engine behind a mutex, and the wakers of those whom its events concern.

use std::{collections::HashMap, task::Waker};

use foldhash::fast::RandomState;
use navlock_engine::{AgentId, Event, FencingToken, LockManager, NameHasher, RequestId};

use super::look_table::LookTable;
use crate::{
    ClientId, Lost,
    agent_state::KeptAgent,
    sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock, shrink},
    waking::{wake, wake_all},
};

/// On a cache line of its own, so that one shard's mutex does not slow its neighbour's.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Shard {
    state: Mutex<State>,
    /// How many times locks were lost in it. Counted up under its lock, before anybody can be told.
    pub(super) losses: AtomicU64,
}

#[derive(Debug)]
pub(super) struct State {
    /// In each request, whom to wake: while it is pending, on the grant; once it is a lock, when it
    /// is lost. Few are ever watched.
    pub(super) locks: LockManager<Option<Waker>>,
    /// Locks that were stolen and whose holders have not finished yet, each with the thief.
    pub(super) stolen: HashMap<RequestId, Option<ClientId>>,
    /// Agents whose handles are gone, and that had something here when they went; each until the
    /// last of that is finished.
    pub(super) left: HashMap<AgentId, KeptAgent, RandomState>,
    /// If somebody looks: what is here, and where it is said what happens. Whatever changes `locks`
    /// says so before the shard is unlocked.
    pub(super) look_table: Option<Box<LookTable>>,
}

impl Shard {
    pub(super) fn new(hasher: &NameHasher, first_token: FencingToken) -> Self {
        let state = Mutex::new(State {
            locks: LockManager::with_data(hasher.clone(), first_token),
            stolen: HashMap::new(),
            left: HashMap::default(),
            look_table: None,
        });
        Self { state, losses: AtomicU64::new(0) }
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Locks of it are lost, or may be. To be called while it is locked, and before anybody is told.
    #[cold]
    pub(super) fn count_losses(&self) {
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
        if let Some(table) = self.look_table.as_mut().filter(|_| LOOKED) {
            table.happened(event, &self.locks, thief);
        }
        waker
    }

    /// Takes all of them, and the wakers of everybody whom they concern.
    pub(super) fn take_events<const LOOKED: bool>(
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
    pub(super) fn wait(&mut self, id: RequestId, waker: &Waker) -> Option<Waker> {
        let place = self.locks.data(id)?;
        match place {
            Some(known) if known.will_wake(waker) => None,
            _ => place.replace(waker.clone()),
        }
    }

    /// How `id`, which is gone, was lost, for the last time that anybody asks.
    #[cold]
    pub(super) fn forget_loss(&mut self, id: RequestId) -> Lost {
        let lost = self.how_lost(id);
        self.stolen.remove(&id);
        lost
    }

    /// Lets go of an agent whose handle is gone, if it has nothing any more: for the caller to drop
    /// once the shard is unlocked.
    #[cold]
    pub(super) fn let_go(&mut self, agent: AgentId) -> Option<KeptAgent> {
        if self.locks.has_something(agent) {
            return None;
        }
        let done = self.left.remove(&agent);
        shrink(&mut self.left);
        done
    }

    /// How the request or lock `id`, which is gone, was lost.
    pub(super) fn how_lost(&self, id: RequestId) -> Lost {
        if self.stolen.contains_key(&id) { Lost::Stolen } else { Lost::Terminated }
    }

    /// Returns what a peak of victims left allocated, once all of them know.
    #[inline]
    pub(super) fn give_back_memory(&mut self) {
        const KEEP: usize = 1024;
        if self.stolen.capacity() > KEEP && self.stolen.is_empty() {
            self.stolen = HashMap::new();
        }
    }
}

/// Unlocks a shard at which nobody looks, and tells everybody whom its events concern.
#[cold]
#[inline(never)]
pub(super) fn tell(mut state: MutexGuard<'_, State>, thief: Option<ClientId>) {
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
pub(super) fn tell_end(mut state: MutexGuard<'_, State>, id: RequestId) {
    let mut wakers = Vec::new();
    if let Some(table) = &mut state.look_table {
        table.finished(id);
    }
    state.take_events::<true>(None, &mut wakers);
    state.give_back_memory();
    drop(state);
    wake_all(wakers);
}
