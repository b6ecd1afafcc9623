//! Whether the maintainer of a connection has a thread.

use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

/// It has a thread, or it does not need one.
const STARTED: u8 = 0;

/// It has no thread. One is started when there is something to do.
const NOT_STARTED: u8 = 1;

/// There is something to do, and no thread could be had.
const REFUSED: u8 = 2;

/// Whether the maintainer of a connection has a thread.
///
/// | from | to | when |
/// |---|---|---|
/// | started | not started | the connection is made without a thread: once, before anybody else has it |
/// | not started | refused | the system has no thread |
/// | refused | not started | the system has a thread, which is about to start |
/// | not started, refused | started | the thread runs |
#[derive(Debug, Default)]
pub(in super::super) struct ThreadState(AtomicU8);

impl ThreadState {
    /// Notes that there is no thread until one is needed.
    pub(super) fn set_not_started(&self) {
        self.0.store(NOT_STARTED, SeqCst);
    }

    /// Notes that the thread runs.
    pub(super) fn set_started(&self) {
        self.0.store(STARTED, SeqCst);
    }

    /// Notes whether the system has refused a thread. A thread that runs meanwhile goes on.
    pub(super) fn note(&self, is_refused: bool) {
        let (from, to) = if is_refused { (NOT_STARTED, REFUSED) } else { (REFUSED, NOT_STARTED) };
        // The exchange fails if this is noted already, or if the thread runs.
        let _ = self.0.compare_exchange(from, to, SeqCst, SeqCst);
    }

    /// Whether there is no thread.
    pub(super) fn is_missing(&self) -> bool {
        self.0.load(SeqCst) != STARTED
    }

    /// Whether there is no thread, and the system has refused one that was needed.
    pub(super) fn is_refused(&self) -> bool {
        self.0.load(SeqCst) == REFUSED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_runs_is_not_said_to_be_refused_by_who_was_refused_another() {
        let state = ThreadState::default();
        assert!(!state.is_missing());
        state.set_not_started();
        assert!(state.is_missing() && !state.is_refused());
        state.note(true);
        assert!(state.is_missing() && state.is_refused());
        state.note(false);
        assert!(state.is_missing() && !state.is_refused());
        state.set_started();
        state.note(true);
        assert!(!state.is_missing() && !state.is_refused());
    }
}
