//! Work on file systems that may not answer.

use std::{sync::mpsc, thread, time::Duration};

/// Does this work on another thread, and waits for the result, but no longer than this time. `None`
/// if the work takes longer, or if no thread can be had.
pub fn within<T: Send + 'static>(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_does_not_answer_is_not_waited_for() {
        let (answer, answered) = mpsc::channel::<()>();
        let (done, is_done) = mpsc::channel();
        let work = move || _ = answered.recv();
        thread::spawn(move || done.send(within(Duration::from_millis(1), work)));
        assert_eq!(is_done.recv_timeout(Duration::from_secs(20)), Ok(None));
        drop(answer);
        assert_eq!(within(Duration::from_secs(60), || 7), Some(7));
    }
}
