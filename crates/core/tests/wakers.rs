//! Wakers are the caller's code. navlock cannot know what they do when they are called or dropped.

#![allow(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

use std::{
    cell::RefCell,
    future::{Future, IntoFuture},
    pin::{Pin, pin},
    sync::{Arc, Mutex, mpsc},
    task::{Context, Poll, RawWakerVTable, Wake, Waker},
    thread,
    time::Duration,
};

use navlock_core::{
    Error, LockFuture, LockGuard, LockManager, LockManagerSnapshot, UserAgent, blocking::block_on,
    host::MemoryReach,
};

/// A lock manager whose bucket has one shard.
fn locks() -> LockManager {
    UserAgent::with_memory(MemoryReach::default().with_shards(1)).lock_manager("app")
}

/// Fails if `what` hangs.
fn within_a_deadline(what: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    thread::spawn(move || {
        what();
        let _ = done.send(());
    });
    wait.recv_timeout(Duration::from_secs(20)).expect("it neither hangs nor panics");
}

/// The waker of a task that owns a guard. Tasks of many executors have such wakers.
struct Owner(#[expect(dead_code, reason = "it is there to be dropped")] Mutex<Option<LockGuard>>);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_may_take_a_guard_along_when_it_is_dropped() {
    within_a_deadline(|| {
        let locks = locks();
        let _holder = locks.lock("db").blocking().unwrap();
        let owner = || {
            let guard = locks.lock("another").blocking().unwrap();
            Waker::from(Arc::new(Owner(Mutex::new(Some(guard)))))
        };

        // The waker is replaced while the request waits. The last waker is left to the abort.
        let mut request = Box::pin(locks.lock("db").into_future());
        assert!(request.as_mut().poll(&mut Context::from_waker(&owner())).is_pending());
        assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(request.as_mut().poll(&mut Context::from_waker(&owner())).is_pending());
        drop(request);
        // The same happens to the wakers of a watched lock.
        let watched = locks.lock("watched").blocking().unwrap();
        assert!(watched.poll_lost(&Context::from_waker(&owner())).is_pending());
        assert!(watched.poll_lost(&Context::from_waker(Waker::noop())).is_pending());
        assert!(watched.poll_lost(&Context::from_waker(&owner())).is_pending());
        drop(watched);
        drop(locks.lock("another").blocking().unwrap());
    });
}

/// Asks for a lock and releases it, inside the call of the waker.
struct Again(LockManager, Mutex<u32>);

impl Wake for Again {
    fn wake(self: Arc<Self>) {
        drop(self.0.lock("another").blocking().unwrap());
        *self.1.lock().unwrap() += 1;
    }
}

#[test]
fn a_waker_may_ask_for_a_lock() {
    within_a_deadline(|| {
        let locks = locks();
        let holder = locks.lock("db").blocking().unwrap();
        let again = Arc::new(Again(locks.clone(), Mutex::new(0)));
        let mut request = pin!(locks.lock("db").into_future());
        let waker = Waker::from(Arc::clone(&again));
        assert!(request.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(holder);
        assert_eq!(*again.1.lock().unwrap(), 1);
    });
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        // This does not call the panic hook, because nobody needs the message.
        std::panic::resume_unwind(Box::new("a waker that panics"));
    }
}

#[test]
fn a_waker_that_panics_leaves_nobody_asleep_and_no_lock_without_a_guard() {
    within_a_deadline(|| {
        let locks = locks();
        let holder = locks.lock("db").blocking().unwrap();
        let panics = Waker::from(Arc::new(Panics));
        let mut first = pin!(locks.lock("db").shared().into_future());
        assert!(first.as_mut().poll(&mut Context::from_waker(&panics)).is_pending());
        thread::scope(|scope| {
            let second = scope.spawn(|| drop(locks.lock("db").shared().blocking().unwrap()));
            while query(&locks).pending.len() < 2 {
                thread::yield_now();
            }
            drop(holder);
            second.join().unwrap();
        });
        let Poll::Ready(Ok(victim)) = first.poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("it was granted")
        };
        assert!(victim.poll_lost(&Context::from_waker(&panics)).is_pending());
        drop(locks.lock("db").steal().blocking().unwrap());
        drop(victim);
        assert!(query(&locks).held.is_empty());
    });
}

#[test]
fn a_payload_of_a_panicking_waker_may_panic_too_and_leaves_no_waiter_asleep() {
    /// A payload that panics when it is dropped, with another such payload. This goes on a few
    /// times.
    struct Payload(u32);

    impl Drop for Payload {
        fn drop(&mut self) {
            if let Some(left) = self.0.checked_sub(1) {
                std::panic::resume_unwind(Box::new(Payload(left)));
            }
        }
    }

    struct PanicsTwice;

    impl Wake for PanicsTwice {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new(Payload(3)));
        }
    }

    within_a_deadline(|| {
        let locks = locks();
        let holder = locks.lock("db").blocking().unwrap();
        let panics = Waker::from(Arc::new(PanicsTwice));
        let mut first = pin!(locks.lock("db").shared().into_future());
        assert!(first.as_mut().poll(&mut Context::from_waker(&panics)).is_pending());
        let counts = Arc::new(Again(locks.clone(), Mutex::new(0)));
        let mut second = pin!(locks.lock("db").shared().into_future());
        let waker = Waker::from(Arc::clone(&counts));
        assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(holder);
        assert_eq!(*counts.1.lock().unwrap(), 1);
    });
}

/// A task that drops itself when it is woken. So the lock that it was granted goes to the next
/// request.
struct DropsItself(Mutex<Option<LockFuture<'static>>>);

impl DropsItself {
    /// Makes a task that waits for the lock.
    fn wait(locks: &LockManager) -> Arc<Self> {
        let this = Arc::new(Self(Mutex::default()));
        let mut request = Box::pin(locks.lock("db").into_future());
        let waker = Waker::from(Arc::clone(&this));
        assert!(request.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        *this.0.lock().unwrap() = Pin::into_inner(request).detach();
        this
    }
}

impl Wake for DropsItself {
    fn wake(self: Arc<Self>) {
        let request = self.0.lock().unwrap().take();
        drop(request);
    }
}

#[test]
fn twenty_thousand_tasks_that_drop_themselves_when_they_are_woken_need_no_deep_stack() {
    let locks = locks();
    let holder = locks.lock("db").blocking().unwrap();
    let tasks: Vec<_> = (0..20_000).map(|_| DropsItself::wait(&locks)).collect();
    let mut last = pin!(locks.lock("db").into_future());
    assert!(last.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());

    // A release returns when all wakers that it concerns have been called. So does the release of
    // each of these tasks.
    drop(holder);
    assert!(tasks.iter().all(|task| task.0.lock().unwrap().is_none()));
    assert!(last.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

#[test]
fn a_waker_may_wait_for_what_a_waker_lets_go_of_that_it_wakes_itself() {
    /// Releases its guard, drops its task, and then waits for the guard that the next waker
    /// releases.
    struct Waits {
        lets_go: Mutex<Option<LockGuard>>,
        task: Arc<DropsItself>,
        next: String,
        locks: LockManager,
    }

    impl Wake for Waits {
        fn wake(self: Arc<Self>) {
            drop(self.lets_go.lock().unwrap().take());
            Arc::clone(&self.task).wake();
            drop(self.locks.lock(&*self.next).blocking().unwrap());
        }
    }

    within_a_deadline(|| {
        let locks = locks();
        let holder = locks.lock("db").blocking().unwrap();
        for nth in 0..60 {
            let task = Arc::new(DropsItself(Mutex::default()));
            let waits = Arc::new(Waits {
                lets_go: Mutex::new(Some(locks.lock(format!("of {nth}")).blocking().unwrap())),
                task: Arc::clone(&task),
                next: format!("of {}", nth + 1),
                locks: locks.clone(),
            });
            let mut request = Box::pin(locks.lock("db").into_future());
            let waker = Waker::from(waits);
            assert!(request.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            *task.0.lock().unwrap() = Pin::into_inner(request).detach();
        }
        drop(holder);
        assert!(query(&locks).held.is_empty());
    });
}

#[test]
fn a_lock_may_be_waited_for_and_let_go_of_while_a_thread_ends() {
    thread_local! {
        static AT_THE_END: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
    }

    struct AtTheEnd(LockManager, mpsc::Sender<()>);

    impl AtTheEnd {
        fn tell(&self) {
            self.1.send(()).unwrap();
        }
    }

    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            let locks = &self.0;
            self.tell();
            // Another thread releases the first lock, and another thread waits for it afterwards.
            let guard = locks.lock("db").blocking().unwrap();
            let late = locks.lock("held for long").blocking_timeout(Duration::from_millis(1));
            assert!(matches!(late.unwrap_err(), Error::TimedOut(_)));
            drop(guard);
            self.tell();
        }
    }

    let locks = locks();
    let holder = locks.lock("db").blocking().unwrap();
    let _long = locks.lock("held for long").blocking().unwrap();
    let (tell, told) = mpsc::channel();
    let is_told =
        || told.recv_timeout(Duration::from_secs(20)).expect("the thread comes to its end");
    let its = locks.clone();
    let thread = thread::spawn(move || {
        // This value is made before all thread-local values of the crate, and so is dropped after
        // them.
        AT_THE_END.set(Some(AtTheEnd(its.clone(), tell)));
        let late = its.lock("db").blocking_timeout(Duration::from_millis(1));
        assert!(matches!(late.unwrap_err(), Error::TimedOut(_)));
    });
    is_told();
    while query(&locks).pending.is_empty() {
        thread::yield_now();
    }
    let mut last = pin!(locks.lock("db").into_future());
    assert!(last.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(holder);
    is_told();
    thread.join().unwrap();
    drop(block_on(last).unwrap());
}

/// A waker that cannot be cloned.
fn panics_when_cloned() -> Waker {
    const DATALESS: RawWakerVTable = RawWakerVTable::new(
        |_| std::panic::resume_unwind(Box::new("a waker that panics when it is cloned")),
        |_| {},
        |_| {},
        |_| {},
    );
    // SAFETY: none of the functions reads the pointer, and all of them may be called from any
    // thread.
    unsafe { Waker::new(std::ptr::null(), &DATALESS) }
}

#[test]
fn a_waker_that_panics_when_it_is_cloned_leaves_no_request_without_an_owner() {
    within_a_deadline(|| {
        let locks = locks();
        let holder = locks.lock("db").blocking().unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let request = pin!(locks.lock("db").into_future());
            request.poll(&mut Context::from_waker(&panics_when_cloned())).is_pending()
        }));
        assert!(panicked.is_err());
        assert!(query(&locks).pending.is_empty());
        drop(holder);
        drop(locks.lock("db").blocking().unwrap());
    });
}

fn query(locks: &LockManager) -> LockManagerSnapshot {
    block_on(locks.query()).unwrap()
}

#[test]
fn a_request_that_waits_fails_in_a_deadlock_which_another_one_closes_that_does_not() {
    within_a_deadline(|| {
        let user_agent = UserAgent::new();
        let [one, two] = [(); 2].map(|()| user_agent.lock_manager("app"));
        let hold = |locks: &LockManager, name: &str| locks.lock(name).blocking().unwrap();
        let (a, b) = (hold(&one, "a"), hold(&two, "b"));
        let waits = thread::spawn(move || one.lock("b").inside(&a).fail_on_deadlock().blocking());
        while block_on(two.query()).unwrap().pending.is_empty() {
            thread::yield_now();
        }
        let mut last = pin!(two.lock("a").inside(&b).into_future());
        assert!(last.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // It is woken, and the lock inside which it was made goes with its thread.
        assert!(matches!(waits.join().unwrap(), Err(Error::Deadlock(_))));
        drop(block_on(last).unwrap());
    });
}
