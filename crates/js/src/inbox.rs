//! The news that other threads, and other locks, have for a realm.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// The slots of a realm that may have news, and who runs the realm's tasks.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    /// Whether the realm has ended, and looks at nothing any more. Changed while the state is locked.
    is_closed: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Slots that were woken, each to be looked at once.
    ready: VecDeque<u32>,
    /// The host, to be woken when a slot is ready.
    host: Option<Waker>,
    /// Whether the agent has ended by what others did. The slots that this has woken are still looked at.
    is_over: bool,
}

impl Inbox {
    /// Ready when there is something to look at. The last of the contexts given here is woken, also when the
    /// realm ends.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        // This runs the caller's code, so the state is not locked yet.
        let waker = context.waker().clone();
        let mut state = self.state();
        if !state.ready.is_empty() {
            return Poll::Ready(());
        }
        let before = state.host.replace(waker);
        drop(state);
        drop(before);
        Poll::Pending
    }

    /// The next slot to look at.
    pub(crate) fn next(&self) -> Option<u32> {
        self.state().ready.pop_front()
    }

    /// How many slots are to be looked at.
    pub(crate) fn len(&self) -> usize {
        self.state().ready.len()
    }

    pub(crate) fn push(&self, slot: u32) {
        self.change(|state| {
            if !self.is_closed() {
                state.ready.push_back(slot);
            }
        });
    }

    /// The realm has ended: there is nothing to look at any more.
    pub(crate) fn close(&self) {
        self.change(|state| {
            self.is_closed.store(true, Ordering::Release);
            state.ready = VecDeque::new();
        });
    }

    /// The agent has ended, and not by its realm.
    pub(crate) fn over(&self) {
        self.change(|state| state.is_over = true);
    }

    /// Whether the realm has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Whether the agent has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_closed() || self.state().is_over
    }

    /// A waker that has this slot looked at. A slot keeps its waker when another request comes into the slot:
    /// to look once too often is harmless.
    pub(crate) fn waker(self: &Arc<Self>, slot: u32) -> Waker {
        Waker::from(Arc::new(SlotWaker { inbox: Arc::clone(self), slot }))
    }

    /// A waker for the end of the agent.
    pub(crate) fn end_waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::new(EndWaker(Arc::clone(self))))
    }

    /// Changes the state, and wakes the host.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        let host = state.host.take();
        drop(state);
        if let Some(host) = host {
            host.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct SlotWaker {
    inbox: Arc<Inbox>,
    slot: u32,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.inbox.push(self.slot);
    }
}

struct EndWaker(Arc<Inbox>);

impl Wake for EndWaker {
    fn wake(self: Arc<Self>) {
        self.0.over();
    }
}
