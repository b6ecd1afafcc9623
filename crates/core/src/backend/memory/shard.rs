//! One shard: an engine behind a mutex, with the wakers that its events call.

use std::{collections::HashMap, sync::Arc, task::Waker};

use foldhash::fast::RandomState;
use navlock_engine::{
    AgentId, EntryRef, Event, FencingToken, LockManager, NameHasher, RequestId, ResourceName,
};

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
    /// How often locks of this shard were lost. Counted up while the shard is locked, before
    /// anybody can be told.
    pub(super) losses: AtomicU64,
}

#[derive(Debug)]
pub(super) struct State {
    /// The data of each request is its waker, which is called on the grant while it is pending, and
    /// on the loss once it is a lock. Few locks are ever watched.
    pub(super) locks: LockManager<Option<Waker>>,
    /// Locks that were stolen and whose holders have not finished yet, each with the thief.
    pub(super) stolen: HashMap<RequestId, Option<ClientId>>,
    /// What locks and requests are for, as far as their requests say so. Each stays until its lock or
    /// request is finished.
    pub(super) whys: HashMap<RequestId, Arc<str>, RandomState>,
    /// Agents that still had locks or requests here when their last handle was dropped. Each stays
    /// until the last of these locks and requests is finished.
    pub(super) left: HashMap<AgentId, KeptAgent, RandomState>,
    /// The look table, if somebody looks. Whatever changes `locks` tells it before the shard is
    /// unlocked.
    pub(super) look_table: Option<Box<LookTable>>,
}

impl Shard {
    pub(super) fn new(hasher: &NameHasher, first_token: FencingToken) -> Self {
        let state = Mutex::new(State {
            locks: LockManager::with_data(hasher.clone(), first_token),
            stolen: HashMap::new(),
            whys: HashMap::default(),
            left: HashMap::default(),
            look_table: None,
        });
        Self { state, losses: AtomicU64::new(0) }
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Notes that locks of this shard are lost, or may be. To be called while the shard is locked,
    /// before anybody is told.
    #[cold]
    pub(super) fn count_losses(&self) {
        self.losses.fetch_add(1, Ordering::Release);
    }
}

impl State {
    /// The locks and requests of one name, or all of them.
    pub(super) fn entries(
        &self,
        name: Option<&ResourceName>,
    ) -> impl Iterator<Item = EntryRef<'_>> {
        let of_one = name.map(|name| self.locks.snapshot_of(name));
        let of_all = name.is_none().then(|| self.locks.snapshot_lock_state());
        of_one.into_iter().flatten().chain(of_all.into_iter().flatten())
    }

    /// Takes the next event of a command. Returns the waker of the request or lock concerned, if it
    /// has one.
    ///
    /// `thief` is the client whose command it was, if the command may have stolen anything.
    ///
    /// Lookers are told, unless `LOOKED` says that nobody looks.
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

    /// Takes all events that are left. Adds the wakers of the requests and locks concerned to
    /// `wakers`.
    pub(super) fn take_events<const LOOKED: bool>(
        &mut self,
        thief: Option<ClientId>,
        wakers: &mut Vec<Waker>,
    ) {
        while self.locks.has_events() {
            wakers.extend(self.take_event::<LOOKED>(thief));
        }
    }

    /// Notes the waker to call when the pending request `id` is granted or ends or, if it is a lock
    /// already, when the lock is lost. Returns the waker that was noted before, for the caller to
    /// drop once the shard is unlocked.
    pub(super) fn wait(&mut self, id: RequestId, waker: &Waker) -> Option<Waker> {
        let place = self.locks.data(id)?;
        match place {
            Some(known) if known.will_wake(waker) => None,
            _ => place.replace(waker.clone()),
        }
    }

    /// How the lock `id`, which is gone, was lost. Forgets this, so nobody may ask again.
    #[cold]
    pub(super) fn forget_loss(&mut self, id: RequestId) -> Lost {
        let lost = self.how_lost(id);
        self.stolen.remove(&id);
        lost
    }

    /// If an agent without a handle has no locks and requests any more, returns what kept it alive,
    /// for the caller to drop once the shard is unlocked.
    #[cold]
    pub(super) fn let_go(&mut self, agent: AgentId) -> Option<KeptAgent> {
        if self.locks.has_something(agent) {
            return None;
        }
        let done = self.left.remove(&agent);
        shrink(&mut self.left);
        done
    }

    /// Forgets what this lock or request is for.
    #[cold]
    pub(super) fn forget_why(&mut self, id: RequestId) {
        self.whys.remove(&id);
        shrink(&mut self.whys);
    }

    /// How the request or lock `id`, which is gone, was lost.
    pub(super) fn how_lost(&self, id: RequestId) -> Lost {
        if self.stolen.contains_key(&id) { Lost::Stolen } else { Lost::Terminated }
    }

    /// Frees the memory that many victims of thefts have left allocated, once all of them know of
    /// their losses.
    #[inline]
    pub(super) fn give_back_memory(&mut self) {
        const KEEP: usize = 1024;
        if self.stolen.capacity() > KEEP && self.stolen.is_empty() {
            self.stolen = HashMap::new();
        }
    }
}

/// Unlocks a shard at which nobody looks, and wakes everybody whom its events concern.
#[cold]
#[inline(never)]
pub(super) fn tell(mut state: MutexGuard<'_, State>, thief: Option<ClientId>) {
    let first = state.take_event::<false>(thief);
    if state.locks.has_events() {
        return tell_all(state, thief, first);
    }
    // FAST: mostly there is one waker, and no list of others is needed.
    state.give_back_memory();
    drop(state);
    if let Some(first) = first {
        wake(first);
    }
}

/// Unlocks the shard and wakes everybody, as above, after the waker `first` has been taken already.
#[cold]
#[inline(never)]
fn tell_all(mut state: MutexGuard<'_, State>, thief: Option<ClientId>, first: Option<Waker>) {
    let mut wakers = Vec::from_iter(first);
    state.take_events::<false>(thief, &mut wakers);
    state.give_back_memory();
    drop(state);
    wake_all(wakers);
}

/// Tells lookers of the end of this request or lock, unlocks the shard, and wakes everybody concerned.
#[cold]
#[inline(never)]
pub(super) fn tell_end(mut state: MutexGuard<'_, State>, id: RequestId) {
    let mut wakers = Vec::new();
    if let Some(table) = &mut state.look_table {
        table.ended(id, None);
    }
    state.take_events::<true>(None, &mut wakers);
    state.give_back_memory();
    drop(state);
    wake_all(wakers);
}
