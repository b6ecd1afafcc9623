//! A runtime on a thread of its own.

use std::{convert::Infallible, io, thread};

use tokio::{
    runtime::{self, Handle},
    sync::oneshot,
};

/// A thread that runs a runtime. It begins to end when this value is dropped.
pub(super) struct RuntimeThread {
    runtime: Handle,
    _end: oneshot::Sender<Infallible>,
}

impl RuntimeThread {
    /// Starts a thread of this name, which first does `begin`, and keeps what that returns until its end.
    ///
    /// # Errors
    ///
    /// If no thread can be had, or there are no descriptors left.
    pub(super) fn start<T>(
        name: &str,
        begin: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _kept = begin();
            // Returns when the sender is dropped; nothing is ever sent.
            _ = runtime.block_on(ended);
        })?;
        Ok(Self { runtime: handle, _end: end })
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.runtime
    }
}
