//! The thread of a connection, which is started once there is something to do for it.

use std::{
    io::{self, Write},
    sync::{Arc, MutexGuard, PoisonError},
};

use navlock_platform::socket::Stream;

use super::{Shared, Waiting, start_thread};

impl Shared {
    /// Leaves it until there is something to do for the maintainer to start a thread, on which this is done.
    pub(in super::super) fn start_thread_later(
        self: &Arc<Self>,
        keeping: impl FnOnce() + Send + 'static,
    ) {
        let (shared, keeping) = (Arc::clone(self), Box::new(keeping));
        *self.without_thread() = Some(Waiting { shared, keeping });
        self.turns.set_resting(true);
        self.thread.set_not_started();
    }

    pub(super) fn without_thread(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.without_thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the maintainer's thread, if it has none.
    pub(in super::super) fn keep(&self) -> io::Result<()> {
        if self.is_forked() || !self.thread.is_missing() {
            return Ok(());
        }
        self.hold_back_no_more();
        let without_thread = self.without_thread();
        let Some(waiting) = &*without_thread else { return Ok(()) };
        // It takes the maintainer itself: if there is no thread to be had, that stays where it is.
        let shared = Arc::clone(&waiting.shared);
        start_thread(move || {
            let taken = shared.without_thread().take();
            drop(shared);
            if let Some(Waiting { shared, keeping }) = taken {
                drop(shared);
                keeping();
            }
        })?;
        self.thread.set_started();
        drop(without_thread);
        Ok(())
    }

    /// What becomes readable when there is something to hear that nobody hears. `None` if somebody
    /// does, or there is already something, or something to do that needs a thread.
    pub(in super::super) fn unheard(&self) -> Option<Arc<Stream>> {
        let is_unkept = self.thread.is_missing() && !self.thread.is_refused();
        // A term ends without a word.
        if self.is_forked() || !is_unkept || self.table().earliest_term().is_some() {
            return None;
        }
        let reader = self.try_reader()?;
        let reader = reader.as_ref().filter(|reader| !reader.has_more())?;
        Some(Arc::clone(reader.socket()))
    }

    /// Has the maintainer look what there is to do.
    pub(in super::super) fn nudge(&self) {
        // If there is no thread to be had, it is tried again with the next nudge, and by who waits.
        let _ = self.try_keep();
        // A full pipe is as good: it has a byte in it.
        let _ = (&self.nudge).write(&[0]);
    }

    /// Starts the maintainer's thread, if it has none, and notes whether there was one to be had.
    pub(super) fn try_keep(&self) -> io::Result<()> {
        let kept = self.keep();
        self.thread.note(kept.is_err());
        kept
    }
}
