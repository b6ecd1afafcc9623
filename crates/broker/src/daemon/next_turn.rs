//! Waiting for the next turn, for what goes on between two turns.

use std::{
    mem,
    sync::{Mutex, OnceLock},
    task::Waker,
};

use tokio::sync::oneshot;

use super::tasks::yield_now;
use crate::sync::lock;

/// Those who wait for the end of the next turn.
#[derive(Default)]
pub(super) struct NextTurn {
    awaiting: Mutex<Vec<oneshot::Sender<()>>>,
    /// Ends the wait for the next turn.
    turns: OnceLock<Waker>,
}

impl NextTurn {
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
        lock(&self.awaiting).push(done);
        self.wake();
        // If no more turns come, the daemon ends, and with it whoever waits here.
        _ = is_done.await;
    }

    pub(super) fn is_awaited(&self) -> bool {
        !lock(&self.awaiting).is_empty()
    }

    /// Takes those who wait. They are told when the turn that begins now has ended.
    pub(super) fn take(&self) -> Vec<oneshot::Sender<()>> {
        mem::take(&mut *lock(&self.awaiting))
    }
}
