//! Clients that have gone and whose processes are ending: what the next holder of their locks needs may
//! still be open there.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{runtime::Handle, time::Instant};

use super::process::{END, Process};

/// What is done once processes have ended.
#[derive(Default)]
pub(super) struct Leaving(Mutex<State>);

#[derive(Default)]
struct State {
    left: Vec<Left>,
    /// Whether nothing is waited for any more.
    is_over: bool,
}

struct Left {
    processes: Vec<Process>,
    /// When it is done in any case.
    until: Instant,
    act: Box<dyn FnOnce() + Send>,
}

impl Leaving {
    fn state(&self) -> MutexGuard<'_, State> {
        // A poisoned mutex may be used: nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does at once what is to be done, from now on too.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        let left = mem::take(&mut state.left);
        drop(state);
        for left in left {
            (left.act)();
        }
    }

    /// Does this once these processes have ended, or [`END`] has passed.
    pub(super) fn when_ended(
        self: &Arc<Self>,
        processes: Vec<Process>,
        act: impl FnOnce() + Send + 'static,
    ) {
        let mut state = self.state();
        // Without a runtime nothing can be waited for.
        let Some(runtime) = Handle::try_current().ok().filter(|_| !state.is_over) else {
            drop(state);
            return act();
        };
        let (waits, until) = (processes.clone(), Instant::now() + END);
        state.left.push(Left { processes, until, act: Box::new(act) });
        drop(state);
        let leaving = Arc::downgrade(self);
        runtime.spawn(async move {
            for process in waits {
                process.until_ended().await;
            }
            if let Some(leaving) = leaving.upgrade() {
                leaving.let_go();
            }
        });
    }

    /// Does what is to be done as far as the processes have ended.
    pub(super) fn let_go(&self) {
        let waits = |left: &Left| {
            left.until > Instant::now() && !left.processes.iter().all(Process::has_ended)
        };
        let mut state = self.state();
        if state.left.is_empty() {
            return;
        }
        let (waiting, ended) = mem::take(&mut state.left).into_iter().partition(waits);
        state.left = waiting;
        // What is done may lead to more of this.
        drop(state);
        let ended: Vec<Left> = ended;
        for left in ended {
            (left.act)();
        }
    }
}
