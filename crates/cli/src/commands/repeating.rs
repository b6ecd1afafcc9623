//! Work that a thread does again and again.

use std::{
    io,
    ops::ControlFlow,
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::Duration,
};

/// A thread that does its work until this is dropped, which waits for the thread.
pub(super) struct Repeating(Option<(Sender<()>, JoinHandle<()>)>);

impl Repeating {
    /// Does the work after each of these pauses, until the work itself breaks off.
    pub(super) fn start(
        name: &str,
        pause: Duration,
        mut work: impl FnMut() -> ControlFlow<()> + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let repeat = move || {
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                if work().is_break() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(repeat)?;
        Ok(Self(Some((stop, thread))))
    }
}

impl Drop for Repeating {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            drop(stop);
            // The thread may have a handle of the agent, which must not end later than its owner expects. A
            // panic was told, and ends nothing else.
            let _ = thread.join();
        }
    }
}
