//! Which sessions have something to tell their clients, or to do, that no message has led to.

use crate::sync::lock;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    task::{Wake, Waker},
};

/// The keys of these sessions, in the order in which they were wanted.
pub(super) struct Wanted {
    keys: Mutex<VecDeque<usize>>,
    /// Ends the wait for the next turn.
    turns: Waker,
}

/// The waker of one session.
struct Session {
    key: usize,
    wanted: Arc<Wanted>,
}

impl Wanted {
    pub(super) fn new(turns: Waker) -> Self {
        Self { keys: Mutex::default(), turns }
    }

    /// A waker for the session of this key.
    pub(super) fn waker(wanted: &Arc<Self>, key: usize) -> Waker {
        Arc::new(Session { key, wanted: Arc::clone(wanted) }).into()
    }

    /// Wants this session to be served.
    pub(super) fn want(&self, key: usize) {
        let mut keys = lock(&self.keys);
        // FAST: mostly the same session is wanted several times in a row, or the list is short.
        if keys.back() != Some(&key) {
            keys.push_back(key);
        }
        drop(keys);
        self.turns.wake_by_ref();
    }

    /// Wants this session to be served after all others that are wanted.
    pub(super) fn want_last(&self, key: usize) {
        lock(&self.keys).retain(|wanted| *wanted != key);
        self.want(key);
    }

    /// The next session that is wanted.
    pub(super) fn next(&self) -> Option<usize> {
        lock(&self.keys).pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.keys).is_empty()
    }
}

impl Wake for Session {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wanted.want(self.key);
    }
}
