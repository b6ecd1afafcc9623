//! A realm: an agent whose locks scripts ask for.

mod ends;
mod method_steps;
mod tasks;

use std::{
    cell::RefCell,
    fmt,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

use navlock_core::{LockManager, host};

use crate::{
    RequestKey,
    inbox::Inbox,
    state::{State, Taken, What},
};

/// An agent of a JavaScript engine, with what its scripts have asked for: what the object
/// `navigator.locks` of a realm stands for.
///
/// Cheap to clone; the clones are the same. When the last one is dropped, or with [`end`](Self::end),
/// the agent ends: its requests are aborted, its locks released.
///
/// The method steps ([`request`](Self::request), [`query`](Self::query)) are what the functions of the
/// interface do once `this` is known to be a lock manager. They never run a callback. To call a callback is a
/// task, as is the answer to a query and the loss of a lock. [`poll_ready`](Self::poll_ready) tells the host
/// that there is a task. The host has it done by [`run_task`](Self::run_task), and runs the engine's
/// microtasks before the next task.
///
/// `V` and `D` are the engine's [`Value`](crate::Engine::Value) and [`Deferred`](crate::Engine::Deferred).
///
/// Spec: <https://w3c.github.io/web-locks/#api-lock-manager>
///
/// The [example of the crate](crate) has one round of a host's loop.
pub struct Realm<V, D>(Rc<Inner<V, D>>);

struct Inner<V, D> {
    locks: LockManager,
    inbox: Arc<Inbox>,
    state: RefCell<State<V, D>>,
}

impl<V: Clone, D> Realm<V, D> {
    /// A realm whose scripts ask for locks as this agent.
    pub fn new(locks: LockManager) -> Self {
        let inbox = Arc::<Inbox>::default();
        let waker = inbox.end_waker();
        if host::poll_ended(&locks, &Context::from_waker(&waker)).is_ready() {
            inbox.over();
        }
        Self(Rc::new(Inner { locks, inbox, state: RefCell::default() }))
    }

    /// The agent.
    pub fn locks(&self) -> &LockManager {
        &self.0.locks
    }

    /// Ready when there is a task. The last of the contexts given here is woken, from any thread. It is also
    /// woken when the agent has ended; so a host that stays until then checks [`has_ended`](Self::has_ended)
    /// after this.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        self.0.inbox.poll(context)
    }

    /// How many tasks there are at most: a slot may turn out to have none. For a host that queues a task in
    /// another event loop for each.
    pub fn tasks(&self) -> usize {
        self.0.inbox.len()
    }

    /// Polls the future of a slot, with the waker that has the slot looked at.
    #[inline]
    fn with_waker<T>(&self, index: u32, poll: impl FnOnce(&mut Context<'_>) -> T) -> T {
        // The waker is lent, because nothing may be borrowed during the poll.
        let waker = self.0.state.borrow_mut().lend_waker(index, &self.0.inbox);
        let polled = poll(&mut Context::from_waker(&waker));
        let left = self.0.state.borrow_mut().take_back_waker(index, waker);
        drop(left);
        polled
    }

    /// Puts back what was taken out of a slot, or drops it here if the request is gone.
    fn put_back(&self, key: RequestKey, taken: Taken) {
        let left = self.0.state.borrow_mut().put_back(key, taken);
        drop(left);
    }

    /// Whether a script waits for something that somebody else brings about. The host should stay as long as
    /// one does. A script that only holds a lock does not wait.
    pub fn is_waiting(&self) -> bool {
        self.0.state.borrow().waiting > 0
    }

    /// Whether the agent has ended: by [`end`](Self::end), or as any agent of Rust code does, by
    /// [`LockManager::terminate`] or [`UserAgent::close`](navlock_core::UserAgent::close). After the latter
    /// two, tasks reject what its scripts wait for and hold, as anything else that is lost.
    pub fn has_ended(&self) -> bool {
        self.0.inbox.has_ended()
    }

    /// Whether the agent has ended, and there is nothing left of what its scripts have asked for: nothing
    /// ever happens here again.
    pub fn is_over(&self) -> bool {
        self.has_ended() && self.0.state.borrow().slots.is_empty()
    }

    /// The agent ends: its requests are aborted, its locks released. Nothing is settled any more, and no
    /// callback called; what scripts ask for later is rejected.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#termination-of-locks>
    pub fn end(&self) {
        self.0.end();
    }

    /// Shows all values that are kept, each once, to an engine whose garbage collector must be told what an
    /// object of Rust keeps. Shows none if it is called while something is changed.
    pub fn trace(&self, mut value: impl FnMut(&V), mut deferred: impl FnMut(&D)) {
        let Ok(state) = self.0.state.try_borrow() else { return };
        state.trace(&mut value, &mut deferred);
    }

    /// Returns `None` if the realm has ended. It may have ended since the caller checked: a signal may run
    /// scripts when it is asked whether it has aborted.
    fn enter(&self, what: What<V, D>) -> Option<RequestKey> {
        if self.0.inbox.is_closed() {
            return None;
        }
        Some(self.0.state.borrow_mut().enter(what))
    }

    /// Takes a request or query out. The caller drops it when nothing is borrowed.
    fn leave(&self, key: RequestKey) -> Option<What<V, D>> {
        self.0.state.borrow_mut().remove(key)
    }
}

impl<V, D> Inner<V, D> {
    fn end(&self) {
        self.inbox.close();
        // All at one moment, not one by one as they are dropped.
        self.locks.terminate();
        let ended = self.state.borrow_mut().take_all();
        drop(ended);
    }
}

impl<V, D> Drop for Inner<V, D> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<V, D> Clone for Realm<V, D> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<V, D> fmt::Debug for Realm<V, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Realm").field("locks", &self.0.locks).finish_non_exhaustive()
    }
}
