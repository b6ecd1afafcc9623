//! What other threads, and other locks, have for a realm.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Wake, Waker},
};

/// The slots of a realm that may have news, and who runs the realm's tasks.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Slots that were woken, each to be looked at once.
    ready: VecDeque<u32>,
    /// Who is to be woken when there is one.
    host: Option<Waker>,
    /// The realm has ended.
    is_closed: bool,
}

impl Inbox {
    /// Ready when there is something to look at. Of the contexts given here, the last one is woken.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        // Foreign, so not while it is locked.
        let waker = context.waker().clone();
        let mut state = self.state();
        if !state.ready.is_empty() || state.is_closed {
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
        let mut state = self.state();
        if state.is_closed {
            return;
        }
        state.ready.push_back(slot);
        let host = state.host.take();
        drop(state);
        if let Some(host) = host {
            host.wake();
        }
    }

    /// The realm has ended: there is nothing to look at any more.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.ready = VecDeque::new();
        let host = state.host.take();
        drop(state);
        if let Some(host) = host {
            host.wake();
        }
    }

    /// Whether the realm has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// A waker that has this slot looked at. A slot keeps its waker whoever is in it: to be looked at
    /// once too often is harmless.
    pub(crate) fn waker(self: &Arc<Self>, slot: u32) -> Waker {
        Waker::from(Arc::new(SlotWaker { inbox: Arc::clone(self), slot }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whole between any two statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
