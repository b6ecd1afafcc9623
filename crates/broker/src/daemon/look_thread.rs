//! The thread on which messages are sent to lookers.

use std::{convert::Infallible, io, thread};

use tokio::{
    runtime::{self, Handle},
    sync::oneshot,
};

use crate::lower_thread_priority;

/// The lookers' thread. The thread ends when this value is dropped.
pub(super) struct Thread {
    runtime: Handle,
    _end: oneshot::Sender<Infallible>,
}

impl Thread {
    /// Starts the thread.
    pub(super) async fn start() -> io::Result<Self> {
        let (handle, made) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        // The runtime is made on the new thread, because it must not be dropped on a thread that runs
        // another runtime.
        thread::Builder::new().name("navlock-telling".to_owned()).spawn(move || {
            lower_thread_priority();
            let built = runtime::Builder::new_current_thread().enable_io().enable_time().build();
            let runtime = match built {
                Ok(runtime) => runtime,
                // If the send fails, the task that has started the thread is gone, and nobody
                // waits.
                Err(error) => return drop(handle.send(Err(error))),
            };
            if handle.send(Ok(runtime.handle().clone())).is_ok() {
                // Returns when the sender is dropped; nothing is ever sent.
                _ = runtime.block_on(ended);
            }
        })?;
        let runtime = made.await.map_err(io::Error::other)??;
        Ok(Self { runtime, _end: end })
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.runtime
    }
}
