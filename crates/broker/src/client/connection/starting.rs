//! Starts the thread of a connection, when there is something for the thread to do.

use std::{
    io::{self, Write},
    sync::{Arc, MutexGuard, PoisonError},
};

use navlock_platform::socket::Stream;

use super::{Shared, Waiting, start_thread};

impl Shared {
    /// Sets what the maintainer's thread does. The thread is started when there is something for it to do.
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
        // The thread takes the maintainer out itself, so if no thread can be had, the maintainer
        // stays.
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

    /// The socket, which becomes readable when something comes that no thread reads. `None` if a
    /// thread reads, if something has come already, or if there is something to do that needs a
    /// thread.
    pub(in super::super) fn pending_source(&self) -> Option<Arc<Stream>> {
        let is_unkept = self.thread.is_missing() && !self.thread.is_refused();
        // A term ends without a message, so a thread is needed.
        if self.is_forked() || !is_unkept || self.table().earliest_term().is_some() {
            return None;
        }
        let reader = self.try_reader()?;
        let reader = reader.as_ref().filter(|reader| !reader.has_more())?;
        Some(Arc::clone(reader.socket()))
    }

    /// Wakes the maintainer, which then looks what there is to do.
    pub(in super::super) fn wake_maintainer(&self) {
        // If no thread can be had, the next call of this function tries again, and so does a thread
        // that waits.
        let _ = self.try_keep();
        // If the pipe is full, it contains a byte already.
        let _ = (&self.waking_end).write(&[0]);
    }

    /// Starts the maintainer's thread, if it has none, and notes whether a thread could be had.
    pub(super) fn try_keep(&self) -> io::Result<()> {
        let kept = self.keep();
        self.thread.note(kept.is_err());
        kept
    }
}
