//! Waking what goes on between two turns.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Wake, Waker},
};

/// Wakes what goes on between two turns.
pub(super) struct Beside {
    is_woken: AtomicBool,
    /// Ends the wait for the next turn.
    turns: Waker,
}

impl Beside {
    pub(super) fn woken(turns: Waker) -> Arc<Self> {
        Arc::new(Self { is_woken: AtomicBool::new(true), turns })
    }

    pub(super) fn is_woken(&self) -> bool {
        self.is_woken.load(SeqCst)
    }

    /// Whether it was woken since this was asked the last time.
    pub(super) fn take(&self) -> bool {
        self.is_woken.swap(false, SeqCst)
    }
}

impl Wake for Beside {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, SeqCst);
        self.turns.wake_by_ref();
    }
}
