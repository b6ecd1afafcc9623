//! The maintainer of a connection and the threads that block for an answer take turns in reading.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Whose turn it is to hear.
///
/// A thread that blocks for an answer hears it itself if it can: to be woken for it by another
/// thread would cost as much again as the answer. So that it finds the reader free, the maintainer rests
/// while there are such threads, and comes back when there have been none for a moment.
#[derive(Debug, Default)]
pub(in super::super) struct ReaderTurns {
    /// A thread wanted the reader and did not get it.
    wanted: AtomicBool,
    /// A thread had it since the maintainer looked last.
    taken: AtomicBool,
    /// The maintainer does not hear for the moment.
    resting: AtomicBool,
    /// The maintainer will not come back unless it is nudged.
    asleep: AtomicBool,
}

impl ReaderTurns {
    /// A thread wants the reader, and another has it.
    pub(super) fn want(&self) {
        self.wanted.store(true, SeqCst);
    }

    /// Whether a thread has wanted the reader in vain since this was asked last.
    pub(in super::super) fn take_wanted(&self) -> bool {
        self.wanted.swap(false, SeqCst)
    }

    /// A thread has the reader.
    pub(super) fn take(&self) {
        self.taken.store(true, SeqCst);
    }

    /// Whether a thread has had the reader since this was asked last.
    pub(in super::super) fn take_taken(&self) -> bool {
        self.taken.swap(false, SeqCst)
    }

    /// The maintainer hears from now on, or does not for the moment.
    pub(in super::super) fn set_resting(&self, rests: bool) {
        self.resting.store(rests, SeqCst);
    }

    /// Whether the maintainer does not hear for the moment, so that a thread that waits must hear for itself.
    pub(super) fn is_resting(&self) -> bool {
        self.resting.load(SeqCst)
    }

    /// Lays the maintainer to sleep unless the reader is free by now. Whether it is to sleep: then who lets
    /// go of the reader [wakes it](Self::wake_if_asleep).
    pub(in super::super) fn sleep_unless_free(&self, is_free: impl FnOnce() -> bool) -> bool {
        // Said before it is looked, so that either who has the reader finds this or we find it gone.
        self.asleep.store(true, SeqCst);
        if !is_free() {
            return true;
        }
        self.asleep.store(false, SeqCst);
        false
    }

    /// The reader is let go of. Whether the maintainer slept until then, and is to be nudged.
    pub(super) fn wake_if_asleep(&self) -> bool {
        self.asleep.swap(false, SeqCst)
    }
}
