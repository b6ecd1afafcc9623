//! The events that other threads send to an agent.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Wake,
    time::Instant,
};

/// The events of an agent, in the order in which they were sent. The mailbox also wakes the agent.
#[derive(Default)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether the agent is to end as soon as it can.
    pub(crate) stop: Arc<AtomicBool>,
}

/// An event.
pub(crate) struct Event {
    /// The text for the function `deliver` of the prelude. The prelude describes the texts.
    pub(crate) text: String,
    /// The source that sends no more events, and that no longer keeps the agent alive.
    pub(crate) over: Option<Source>,
}

/// A source of events for an agent, which keeps the agent alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Worker(u64),
    Process(u64),
    /// The agent that has started this one.
    Parent,
    /// The lines of the standard input.
    Input,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    /// Whether another thread has sent something or called the waker since the agent last waited.
    is_woken: bool,
}

impl Mailbox {
    pub(crate) fn send(&self, event: Event) {
        self.change(|state| state.events.push_back(event));
    }

    pub(crate) fn take(&self) -> Option<Event> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).events.pop_front()
    }

    /// Makes the agent end. If the engine can stop scripts, a running script is stopped.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.change(|_| {});
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Waits until somebody has sent something or called the waker, or until `due`.
    pub(crate) fn wait(&self, due: Option<Instant>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.is_woken {
            let Some(due) = due else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let now = Instant::now();
            if due <= now {
                break;
            }
            let waited = self.changed.wait_timeout(state, due - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.is_woken = false;
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        state.is_woken = true;
        drop(state);
        self.changed.notify_one();
    }
}

impl Wake for Mailbox {
    fn wake(self: Arc<Self>) {
        self.change(|_| {});
    }
}
