//! The thread on which those who look are told.

use std::{convert::Infallible, io, thread};

use tokio::{
    runtime::{self, Handle},
    sync::oneshot,
};

use crate::stand_back;

/// A thread on which lookers are told. It ends with this.
pub(super) struct Thread {
    runtime: Handle,
    _end: oneshot::Sender<Infallible>,
}

impl Thread {
    /// Starts it.
    pub(super) async fn start() -> io::Result<Self> {
        let (handle, made) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        // The runtime is made there, as it must not end on a thread that has another one.
        thread::Builder::new().name("navlock-telling".to_owned()).spawn(move || {
            stand_back();
            let built = runtime::Builder::new_current_thread().enable_io().enable_time().build();
            let runtime = match built {
                Ok(runtime) => runtime,
                // Nobody waits for it if it has gone.
                Err(error) => return drop(handle.send(Err(error))),
            };
            if handle.send(Ok(runtime.handle().clone())).is_ok() {
                // Nothing is ever said: it is dropped.
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
