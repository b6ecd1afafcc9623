//! Blocks a thread until a future is ready, for code without an executor.

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
/// This is made for this crate's futures, and works for every future that needs no particular
/// executor.
///
/// ```
/// # use navlock::{Error, UserAgent};
/// use navlock::blocking::block_on;
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

/// Runs a future on this thread as [`block_on`] does, but for no longer than `timeout`. After that, the
/// future is dropped, and the answer is `None`.
///
/// The future is polled at least once, even with a timeout of zero. But a lock that another process
/// keeps takes a moment even if it is free. A timeout whose end the clock cannot represent counts
/// as none.
///
/// ```
/// # use navlock::{Error, UserAgent};
/// use {navlock::blocking::block_on_timeout, std::time::Duration};
///
/// let locks = UserAgent::new().lock_manager("app");
/// let guard = locks.lock("db").blocking()?;
/// assert!(block_on_timeout(guard.lost(), Duration::from_millis(1)).is_none());
/// # Ok::<(), Error>(())
/// ```
pub fn block_on_timeout<F: IntoFuture>(future: F, timeout: Duration) -> Option<F::Output> {
    block_on_deadline(future.into_future(), Instant::now().checked_add(timeout))
}

/// A source of answers, such as a connection. A thread that is blocked until an answer comes can read
/// it from here itself, instead of waiting for another thread to read it and wake this one.
///
/// This is for a [`Backend`](crate::host::Backend) that has a connection. Such a backend
/// [offers](offer) its source when it answers [`Poll::Pending`].
pub trait Source: Send + Sync {
    /// Waits until there is something new, somebody [interrupts](Self::interrupt), or `deadline`
    /// has passed. Takes in what is new, and wakes everybody whom this concerns. It may return at
    /// any time, even without a reason. Returns `false` if the thread must wait as if there were no
    /// source, because another thread uses it.
    ///
    /// Only one thread can use the source. Once a thread does, and before it waits, it must ask
    /// `is_woken`: an interruption before that may have reached another thread instead.
    fn wait(&self, deadline: Option<Instant>, is_woken: &dyn Fn() -> bool) -> bool;

    /// Makes the thread that waits here return, if there is one.
    fn interrupt(&self);

    /// Says that a thread that has waited here will not wait here any more.
    fn leave(&self);
}

/// Offers a source to the thread that polls, if [`block_on`] blocks this thread. Returns whether it
/// does.
pub fn offer(source: impl FnOnce() -> Arc<dyn Source>) -> bool {
    let offered = OFFERED.try_with(|offered| match &mut *offered.borrow_mut() {
        Offered::Unwanted => false,
        Offered::Wanted(offered) => {
            offered.get_or_insert_with(source);
            true
        }
    });
    // If the thread is ending, its thread-local for offers is gone: another thread has to wake it.
    offered.unwrap_or(false)
}

thread_local! {
    static OFFERED: RefCell<Offered> = const { RefCell::new(Offered::Unwanted) };

    /// The address of this thread-local identifies the thread among all living threads. It has no
    /// destructor, so it exists until the very end of the thread, even while other thread-locals
    /// are dropped.
    static HERE: u8 = const { 0 };
}

/// A number that identifies this thread among all living threads.
fn this_thread() -> usize {
    HERE.with(|here| ptr::from_ref(here).addr())
}

/// The source that the futures which this thread polls have offered.
enum Offered {
    /// No source is wanted: whoever polls has other ways to wait.
    Unwanted,
    Wanted(Option<Arc<dyn Source>>),
}

fn block_on_deadline<F: Future>(future: F, deadline: Option<Instant>) -> Option<F::Output> {
    let mut future = pin!(future);
    // FAST: most locks are free, and then nobody needs to be woken. If a lock is not free, the
    // future is polled again, with a waker, before the thread waits.
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
            // This code may run inside a waker, and may wait for tasks whose wakers were put off.
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
        // Mostly the source is the same as before.
        if let Some(offered) = offered.filter(|offered| !source.is(offered)) {
            // Whoever wakes us from here on knows which source to interrupt.
            let known = Some(Arc::clone(&offered));
            *blocked.source.lock().unwrap_or_else(PoisonError::into_inner) = known;
            source = Used(Some(offered));
        }
    }
}

/// Polls a future. Also returns the source that was offered meanwhile.
fn poll<F: Future>(
    future: Pin<&mut F>,
    waker: &Waker,
) -> (Poll<F::Output>, Option<Arc<dyn Source>>) {
    // The future may itself block this thread in a nested call, which needs an offer of its own.
    let Ok(before) = OFFERED.try_with(|offered| offered.replace(Offered::Wanted(None))) else {
        // The thread is ending, and its thread-local for offers is gone.
        return (future.poll(&mut Context::from_waker(waker)), None);
    };
    let restore = Restore(before);
    let polled = future.poll(&mut Context::from_waker(waker));
    match restore.restore() {
        Offered::Wanted(offered) => (polled, offered),
        Offered::Unwanted => (polled, None),
    }
}

/// The source at which a thread has waited.
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
/// It does not use `thread::park`: the parker of a thread ends with the thread, and destructors of
/// thread-locals may wait for locks even later.
struct Blocked {
    thread: usize,
    woken: AtomicBool,
    /// Held by the thread from its last look at `woken` until it sleeps.
    sleep: Mutex<()>,
    wake_up: Condvar,
    source: Mutex<Option<Arc<dyn Source>>>,
}

impl Blocked {
    /// Sleeps until it is woken, or for this long. It may return at any time.
    fn sleep(&self, left: Option<Duration>) {
        let asleep = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        if self.woken.load(Ordering::Acquire) {
            return;
        }
        // If this wait returns early, the caller notices that by itself.
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
        // FAST: a thread that reads its own answer is awake.
        if this_thread() == self.thread {
            return;
        }
        // When this mutex has been locked, the thread either has not looked at `woken` yet, and
        // will see the new value, or it sleeps.
        drop(self.sleep.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake_up.notify_one();
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(source) = source {
            source.interrupt();
        }
    }
}
