//! Work on file systems that may not answer.

use std::{sync::mpsc, thread, time::Duration};

/// Does this work on another thread, and waits for the result, but no longer than this time. `None`
/// if the work takes longer, or if no thread can be had.
pub(super) fn within<T: Send + 'static>(
    timeout: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, is_done) = mpsc::channel();
    let spawned = thread::Builder::new().name("navlock-aside".to_owned()).spawn(move || {
        // The caller may have given up.
        let _ = done.send(work());
    });
    spawned.ok()?;
    is_done.recv_timeout(timeout).ok()
}
