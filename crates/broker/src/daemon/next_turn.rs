//! Waiting for the next turn, for what goes on between two turns.

use std::{
    mem,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    task::Waker,
};

use tokio::{sync::oneshot, task::yield_now};

/// Those who wait for the end of the next turn.
#[derive(Default)]
pub(super) struct NextTurn {
    awaiting: Mutex<Vec<oneshot::Sender<()>>>,
    /// Ends the wait for the next turn.
    turns: OnceLock<Waker>,
}

impl NextTurn {
    fn awaiting(&self) -> MutexGuard<'_, Vec<oneshot::Sender<()>>> {
        // A poisoned mutex may be used: nothing panics while it is locked.
        self.awaiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what ends the wait for the next turn.
    pub(super) fn begin(&self, turns: Waker) {
        // A broker has one set of turns.
        let _ = self.turns.set(turns);
    }

    /// Has a turn taken.
    pub(super) fn wake(&self) {
        if let Some(turns) = self.turns.get() {
            turns.wake_by_ref();
        }
    }

    /// Returns when all that was sent before this call was acted on and told.
    pub(super) async fn passes(&self) {
        if self.turns.get().is_none() {
            // In tests, sessions may take turns by other ways.
            return yield_now().await;
        }
        let (done, is_done) = oneshot::channel();
        self.awaiting().push(done);
        self.wake();
        // If no more turns come, the daemon ends, and with it whoever waits here.
        _ = is_done.await;
    }

    pub(super) fn is_awaited(&self) -> bool {
        !self.awaiting().is_empty()
    }

    /// Takes those who wait. They are told when the turn that begins now has ended.
    pub(super) fn take(&self) -> Vec<oneshot::Sender<()>> {
        mem::take(&mut *self.awaiting())
    }
}
