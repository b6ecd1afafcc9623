//! Runtimes for calls to etcd: the caller may have another executor, or none.

use std::{
    io,
    thread::{self, ThreadId},
};

use navlock_core::{Error, Unreachable};
use tokio::{
    runtime::{Builder, Runtime},
    sync::oneshot,
};

use navlock_machines::failure::gone;

use crate::STORE;

/// A runtime of one thread.
pub(crate) fn runtime() -> Result<Runtime, Error> {
    Builder::new_current_thread().enable_all().build().map_err(|error| failed("a runtime", error))
}

/// Runs `serve` on a thread of its own, and returns the answer that it sends. `serve` may go on after
/// that. Returns the id of the thread as well.
pub(crate) async fn on_a_thread<T: Send + 'static>(
    name: &str,
    serve: impl AsyncFnOnce(oneshot::Sender<Result<T, Error>>) + Send + 'static,
) -> Result<(T, ThreadId), Error> {
    let (answer, answered) = oneshot::channel();
    let run = move || match runtime() {
        Ok(runtime) => {
            runtime.block_on(serve(answer));
            // Nobody needs the tasks that are left on this runtime.
            runtime.shutdown_background();
        }
        // If the caller is gone, nobody receives this.
        Err(error) => drop(answer.send(Err(error))),
    };
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    let thread = thread.map_err(|error| failed("a thread", error))?.thread().id();
    Ok((answered.await.unwrap_or_else(|_| Err(gone(STORE)))?, thread))
}

fn failed(what: &str, error: io::Error) -> Error {
    Unreachable::other(format!("cannot reach etcd: {error} at {what}")).caused_by(error).into()
}
