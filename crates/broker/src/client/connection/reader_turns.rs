//! The maintainer of a connection and the threads that block for an answer take turns in reading.
//!
//! The atomics are those of the parent module. `tests/reader_turns.rs` includes this file with the
//! atomics of a scheduler, which chooses the order of the threads' steps.

use super::{AtomicBool, SeqCst};

/// Whose turn it is to read.
///
/// A thread that blocks for an answer reads the answer itself if it can: to be woken by another thread
/// would cost as much again as the answer. The maintainer rests while there are such threads, so that
/// they find the reader free. It comes back when there have been no such threads for a moment.
#[derive(Debug, Default)]
pub(crate) struct ReaderTurns {
    /// Whether a thread has wanted the reader and did not get it.
    wanted: AtomicBool,
    /// Whether a thread has had the reader since the maintainer last asked.
    taken: AtomicBool,
    /// Whether the maintainer rests, and does not read.
    resting: AtomicBool,
    /// Whether the maintainer sleeps, and comes back only if it is woken.
    asleep: AtomicBool,
}

impl ReaderTurns {
    /// Notes that a thread wants the reader while another has it.
    pub(crate) fn want(&self) {
        self.wanted.store(true, SeqCst);
    }

    /// Whether a thread has wanted the reader and did not get it, since the last call of this
    /// function.
    pub(crate) fn take_wanted(&self) -> bool {
        self.wanted.swap(false, SeqCst)
    }

    /// Notes that a thread has the reader.
    pub(crate) fn take(&self) {
        self.taken.store(true, SeqCst);
    }

    /// Whether a thread has had the reader since the last call of this function.
    pub(crate) fn take_taken(&self) -> bool {
        self.taken.swap(false, SeqCst)
    }

    /// Notes whether the maintainer rests.
    pub(crate) fn set_resting(&self, rests: bool) {
        self.resting.store(rests, SeqCst);
    }

    /// Whether the maintainer rests, so that a thread that waits must read for itself.
    pub(crate) fn is_resting(&self) -> bool {
        self.resting.load(SeqCst)
    }

    /// Notes that the maintainer sleeps, unless the reader is free by now. Returns whether it has to
    /// sleep. If so, the thread that gives up the reader [wakes it](Self::wake_if_asleep).
    pub(crate) fn sleep_unless_free(&self, is_free: impl FnOnce() -> bool) -> bool {
        // This is set before the check, so that either the thread that has the reader sees it, or
        // this thread finds the reader free.
        self.asleep.store(true, SeqCst);
        if !is_free() {
            return true;
        }
        self.asleep.store(false, SeqCst);
        false
    }

    /// To be called when a thread has given up the reader. Returns whether the maintainer was
    /// asleep and has to be woken.
    pub(crate) fn wake_if_asleep(&self) -> bool {
        self.asleep.swap(false, SeqCst)
    }
}
