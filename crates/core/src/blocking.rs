//! Waiting on a thread, for code without an executor.

use std::{
    cell::RefCell,
    future::{Future, IntoFuture},
    mem,
    pin::{Pin, pin},
    ptr,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use crate::waking;

/// Runs a future to its end on this thread, which sleeps while the future waits.
///
/// Made for this crate's futures; it works for every future that needs no particular executor.
///
/// ```
/// # use navlock_core::{Error, UserAgent};
/// use navlock_core::blocking::block_on;
///
/// let locks = UserAgent::new().lock_manager("app");
/// let guard = block_on(locks.lock("db"))?;
/// assert_eq!(block_on(async { 1 + 1 }), 2);
/// # Ok::<(), Error>(())
/// ```
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
///
/// ```
/// # use navlock_core::{Error, UserAgent};
/// use {navlock_core::blocking::block_on_timeout, std::time::Duration};
///
/// let locks = UserAgent::new().lock_manager("app");
/// let guard = locks.lock("db").blocking()?;
/// assert!(block_on_timeout(guard.lost(), Duration::from_millis(1)).is_none());
/// # Ok::<(), Error>(())
/// ```
pub fn block_on_timeout<F: IntoFuture>(future: F, timeout: Duration) -> Option<F::Output> {
    block_on_deadline(future.into_future(), Instant::now().checked_add(timeout))
}

/// Where answers come from, for a thread that is blocked until one is there: it can take them in
/// itself instead of waiting for another thread to do so and wake it.
///
/// For a [`Backend`](crate::host::Backend) that has a connection. It [offers](offer) its source when it
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
    let offered = OFFERED.try_with(|offered| match &mut *offered.borrow_mut() {
        Offered::Unwanted => false,
        Offered::Wanted(offered) => {
            offered.get_or_insert_with(source);
            true
        }
    });
    // A thread that is ending, whose place for offers is gone, is woken by another.
    offered.unwrap_or(false)
}

thread_local! {
    static OFFERED: RefCell<Offered> = const { RefCell::new(Offered::Unwanted) };

    /// Its place tells this thread from all others that live. Nothing is dropped at its end, so it
    /// is there until the end of the thread, where what belongs to the thread is dropped.
    static HERE: u8 = const { 0 };
}

/// Which thread this is.
fn this_thread() -> usize {
    HERE.with(|here| ptr::from_ref(here).addr())
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
        thread: this_thread(),
        woken: AtomicBool::new(true),
        sleep: Mutex::default(),
        wake_up: Condvar::default(),
        source: Mutex::default(),
    });
    let waker = Waker::from(Arc::clone(&blocked));
    let mut source = Used(None);
    loop {
        while !blocked.woken.swap(false, Ordering::Acquire) {
            // This may be inside of a waker, and those who are waited for among the ones it put off.
            waking::call_put_off();
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            let is_woken = || blocked.woken.load(Ordering::Acquire);
            if source.0.as_ref().is_some_and(|source| source.wait(deadline, &is_woken)) {
                continue;
            }
            blocked.sleep(left);
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
    let Ok(before) = OFFERED.try_with(|offered| offered.replace(Offered::Wanted(None))) else {
        // The thread is ending, and what it is offered cannot be noted any more.
        return (future.poll(&mut Context::from_waker(waker)), None);
    };
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
        self.put_back()
    }

    fn put_back(&mut self) -> Offered {
        let before = mem::replace(&mut self.0, Offered::Unwanted);
        OFFERED.try_with(|offered| offered.replace(before)).unwrap_or(Offered::Unwanted)
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        if thread::panicking() {
            drop(self.put_back());
        }
    }
}

/// A thread that is blocked.
///
/// It is not parked: what a thread is parked by belongs to the thread and ends with it, and locks
/// are also waited for by what is dropped then.
struct Blocked {
    thread: usize,
    woken: AtomicBool,
    /// Held by the thread from its last look at `woken` until it sleeps.
    sleep: Mutex<()>,
    wake_up: Condvar,
    source: Mutex<Option<Arc<dyn Source>>>,
}

impl Blocked {
    /// Sleeps until it is woken, or for so long. It may return at any time.
    fn sleep(&self, left: Option<Duration>) {
        let asleep = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        if self.woken.load(Ordering::Acquire) {
            return;
        }
        // Who returned early finds that out by itself.
        match left {
            None => drop(self.wake_up.wait(asleep)),
            Some(left) => drop(self.wake_up.wait_timeout(asleep, left)),
        }
    }
}

impl Wake for Blocked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        // FAST: a thread that takes in its own answer is awake.
        if this_thread() == self.thread {
            return;
        }
        // Either it has not looked yet and will see that it is woken, or it sleeps.
        drop(self.sleep.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake_up.notify_one();
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(source) = source {
            source.interrupt();
        }
    }
}
