//! Waiting on a thread, for code without an executor.

use std::{
    future::{Future, IntoFuture},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// Runs a future to its end on this thread, which sleeps while the future waits.
///
/// Made for this crate's futures; it works for every future that needs no particular executor.
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    match block_on_deadline(future.into_future(), None) {
        Some(output) => output,
        None => unreachable!("without a deadline there is no end but the future's"),
    }
}

/// The same, for no longer than `timeout`: then the future is dropped, and the answer is `None`.
///
/// The future is polled at least once, also with a timeout of zero. One too long for the clock to
/// tell its end is no timeout.
pub fn block_on_timeout<F: IntoFuture>(future: F, timeout: Duration) -> Option<F::Output> {
    block_on_deadline(future.into_future(), Instant::now().checked_add(timeout))
}

fn block_on_deadline<F: Future>(future: F, deadline: Option<Instant>) -> Option<F::Output> {
    thread_local! {
        static WAKER: Waker = Waker::from(Arc::new(Unpark(thread::current())));
    }
    // A thread that is ending has no thread-local values any more, and may still block.
    let waker = WAKER
        .try_with(Waker::clone)
        .unwrap_or_else(|_| Waker::from(Arc::new(Unpark(thread::current()))));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        match deadline {
            None => thread::park(),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return None;
                }
                thread::park_timeout(left);
            }
        }
    }
}

/// Wakes the thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
