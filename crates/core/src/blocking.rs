//! Waiting on a thread, for code without an executor.

use std::{
    cell::RefCell,
    future::{Future, IntoFuture},
    mem,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, PoisonError,
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

/// Where answers come from, for a thread that is blocked until one is there: it can take them in
/// itself instead of waiting for another thread to do so and wake it.
///
/// For a [`Backend`](crate::Backend) that has a connection. It [offers](offer) its source when it
/// answers [`Poll::Pending`].
pub trait Source: Send + Sync {
    /// Waits until there is something new or somebody [interrupts](Self::interrupt), for no longer
    /// than until `deadline`, takes it in, and wakes whom it concerns. It may return at any time,
    /// also for no reason. `false` if the thread must wait as if there were no source, because
    /// another is at it.
    ///
    /// Only one thread can be at it. Once it is, and before it waits, it asks `is_woken`: what
    /// interrupted it until then may have interrupted another instead.
    fn wait(&self, deadline: Option<Instant>, is_woken: &dyn Fn() -> bool) -> bool;

    /// Has the thread that waits return, if one does.
    fn interrupt(&self);

    /// A thread that has waited here will not any more.
    fn leave(&self);
}

/// Offers a source to the thread that polls, if it is one that [`block_on`] blocks. Whether it is.
pub fn offer(source: impl FnOnce() -> Arc<dyn Source>) -> bool {
    OFFERED.with_borrow_mut(|offered| match offered {
        Offered::Unwanted => false,
        Offered::Wanted(offered) => {
            offered.get_or_insert_with(source);
            true
        }
    })
}

thread_local! {
    static OFFERED: RefCell<Offered> = const { RefCell::new(Offered::Unwanted) };
}

/// What the futures that this thread polls may wait for.
enum Offered {
    /// Whoever polls has other ways to wait.
    Unwanted,
    Wanted(Option<Arc<dyn Source>>),
}

fn block_on_deadline<F: Future>(future: F, deadline: Option<Instant>) -> Option<F::Output> {
    let mut future = pin!(future);
    // FAST: most locks are free, and then nobody needs to be woken. One that is not is polled
    // again before anything is waited for.
    if let Poll::Ready(output) = poll(future.as_mut(), Waker::noop()).0 {
        return Some(output);
    }
    let blocked = Arc::new(Blocked {
        thread: thread::current(),
        woken: AtomicBool::new(true),
        source: Mutex::default(),
    });
    let waker = Waker::from(Arc::clone(&blocked));
    let mut source = Used(None);
    loop {
        // The thread may be unparked by others, and what it runs may park it as well.
        while !blocked.woken.swap(false, Ordering::Acquire) {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            let is_woken = || blocked.woken.load(Ordering::Acquire);
            if source.0.as_ref().is_some_and(|source| source.wait(deadline, &is_woken)) {
                continue;
            }
            match left {
                None => thread::park(),
                Some(left) => thread::park_timeout(left),
            }
        }
        let (polled, offered) = poll(future.as_mut(), &waker);
        if let Poll::Ready(output) = polled {
            return Some(output);
        }
        // Mostly the one that it was.
        if let Some(offered) = offered.filter(|offered| !source.is(offered)) {
            // Whoever wakes us from here on knows where we are.
            let known = Some(Arc::clone(&offered));
            *blocked.source.lock().unwrap_or_else(PoisonError::into_inner) = known;
            source = Used(Some(offered));
        }
    }
}

/// Polls, and says what was offered on the way.
fn poll<F: Future>(
    future: Pin<&mut F>,
    waker: &Waker,
) -> (Poll<F::Output>, Option<Arc<dyn Source>>) {
    // What is polled may itself block this thread, and then gets its own.
    let before = OFFERED.replace(Offered::Wanted(None));
    let restore = Restore(before);
    let polled = future.poll(&mut Context::from_waker(waker));
    match restore.restore() {
        Offered::Wanted(offered) => (polled, offered),
        Offered::Unwanted => (polled, None),
    }
}

/// A source that a thread has waited at.
struct Used(Option<Arc<dyn Source>>);

impl Used {
    fn is(&self, source: &Arc<dyn Source>) -> bool {
        self.0.as_ref().is_some_and(|used| Arc::ptr_eq(used, source))
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        if let Some(source) = &self.0 {
            source.leave();
        }
    }
}

/// Puts back what was there before, also after a panic.
struct Restore(Offered);

impl Restore {
    fn restore(mut self) -> Offered {
        OFFERED.replace(mem::replace(&mut self.0, Offered::Unwanted))
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        if thread::panicking() {
            drop(OFFERED.replace(mem::replace(&mut self.0, Offered::Unwanted)));
        }
    }
}

/// A thread that is blocked.
struct Blocked {
    thread: Thread,
    woken: AtomicBool,
    source: Mutex<Option<Arc<dyn Source>>>,
}

impl Wake for Blocked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        // FAST: a thread that takes in its own answer is awake.
        if thread::current().id() == self.thread.id() {
            return;
        }
        self.thread.unpark();
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(source) = source {
            source.interrupt();
        }
    }
}
