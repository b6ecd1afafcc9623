//! Waiting on a thread, for code without an executor.

use std::{
    future::{Future, IntoFuture},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
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
/// The future is polled at least once, also with a timeout of zero; but a lock whose keeper is
/// another process takes a moment to be had even if it is free. A timeout too long for the clock to
/// tell its end is none.
pub fn block_on_timeout<F: IntoFuture>(future: F, timeout: Duration) -> Option<F::Output> {
    block_on_deadline(future.into_future(), Instant::now().checked_add(timeout))
}

fn block_on_deadline<F: Future>(future: F, deadline: Option<Instant>) -> Option<F::Output> {
    let mut future = pin!(future);
    // FAST: most locks are free, and then nobody needs to be woken. One that is not is polled
    // again before anything is waited for.
    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return Some(output);
    }
    let unpark = Arc::new(Unpark { thread: thread::current(), woken: AtomicBool::new(true) });
    let waker = Waker::from(Arc::clone(&unpark));
    loop {
        // The thread may be unparked by others, and what it runs may park it as well.
        while !unpark.woken.swap(false, Ordering::Acquire) {
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
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
    }
}

/// Wakes the thread, which may be doing something else.
struct Unpark {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}
