//! Clients that have gone and whose processes are ending: what the next holder of their locks needs may
//! still be open there.

use std::{mem, sync::Mutex, time::Instant};

use super::process::{END, Process};
use crate::sync::lock;

/// What is done once processes have ended.
#[derive(Default)]
pub(super) struct Leaving(Mutex<State>);

#[derive(Default)]
struct State {
    left: Vec<Left>,
    unwatched: Vec<Process>,
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
    /// Does at once what is to be done, from now on too.
    pub(super) fn end(&self) {
        let mut state = lock(&self.0);
        state.is_over = true;
        state.unwatched = Vec::new();
        let left = mem::take(&mut state.left);
        drop(state);
        for left in left {
            (left.act)();
        }
    }

    /// Does this once these processes have ended, or some seconds after [`END`] has passed. Whoever calls this beside
    /// a turn [has one taken](super::next_turn::NextTurn::wake).
    pub(super) fn when_ended(&self, processes: Vec<Process>, act: impl FnOnce() + Send + 'static) {
        let mut state = lock(&self.0);
        if state.is_over {
            drop(state);
            return act();
        }
        state.unwatched.extend(processes.iter().cloned());
        state.left.push(Left { processes, until: Instant::now() + END, act: Box::new(act) });
    }

    /// Whether a turn has to be taken: there are processes [to watch](Self::unwatched), or nothing to wait for.
    pub(super) fn is_left(&self) -> bool {
        let state = lock(&self.0);
        !state.unwatched.is_empty() || state.left.iter().any(|left| left.processes.is_empty())
    }

    /// The processes of whose ends the turns are not told yet.
    pub(super) fn unwatched(&self) -> Vec<Process> {
        mem::take(&mut lock(&self.0).unwatched)
    }

    /// Does what is to be done as far as the processes have ended. To be called at the beginning of each turn, and
    /// now and then.
    pub(super) fn let_go(&self) {
        let waits = |left: &Left| {
            left.until > Instant::now() && !left.processes.iter().all(Process::has_ended)
        };
        let mut state = lock(&self.0);
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
