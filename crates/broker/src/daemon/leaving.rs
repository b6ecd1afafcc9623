//! Clients that have gone and whose processes are ending: what the next holder of their locks needs may
//! still be open there.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;

use super::{
    process::{END, Process},
    state::Daemon,
};

/// What is done once processes have ended.
#[derive(Default)]
pub(super) struct Leaving(Mutex<Vec<Left>>);

struct Left {
    processes: Vec<Process>,
    /// When it is done in any case.
    until: Instant,
    act: Box<dyn FnOnce() + Send>,
}

impl Leaving {
    fn left(&self) -> MutexGuard<'_, Vec<Left>> {
        // A poisoned mutex may be used: nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what is to be done.
    pub(super) fn end(&self) {
        let left = mem::take(&mut *self.left());
        drop(left);
    }
}

impl Daemon {
    /// Does this once these processes have ended, or [`END`] has passed.
    pub(super) fn when_ended(
        self: &Arc<Self>,
        processes: Vec<Process>,
        act: impl FnOnce() + Send + 'static,
    ) {
        let (until, act) = (Instant::now() + END, Box::new(act));
        let daemon = Arc::downgrade(self);
        let waits = processes.clone();
        self.leaving().left().push(Left { processes, until, act });
        tokio::spawn(async move {
            for process in waits {
                process.until_ended().await;
            }
            if let Some(daemon) = daemon.upgrade() {
                daemon.let_go();
            }
        });
    }

    /// Does what is to be done as far as the processes have ended.
    pub(super) fn let_go(&self) {
        let has_ended = |left: &Left| {
            left.processes.iter().all(Process::has_ended) || left.until <= Instant::now()
        };
        loop {
            let mut left = self.leaving().left();
            let Some(at) = left.iter().position(has_ended) else { return };
            let Left { act, .. } = left.remove(at);
            // What is done may lead to more of this.
            drop(left);
            act();
        }
    }
}
