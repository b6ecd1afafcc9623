//! Wakers are foreign code: what they do when they are called or dropped is not ours to know.

#![allow(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

use std::{
    future::{Future, IntoFuture},
    pin::pin,
    sync::{Arc, Mutex, mpsc},
    task::{Context, Poll, RawWakerVTable, Wake, Waker},
    thread,
    time::Duration,
};

use navlock_core::{
    LockGuard, LockManager, LockManagerSnapshot, UserAgent, backend::MemoryReach,
    blocking::block_on,
};

/// Everybody in one shard.
fn locks() -> LockManager {
    UserAgent::with_memory(MemoryReach::default().with_shards(1)).lock_manager("app")
}

/// Fails instead of hanging.
fn within_a_deadline(what: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    thread::spawn(move || {
        what();
        let _ = done.send(());
    });
    wait.recv_timeout(Duration::from_secs(20)).expect("it neither hangs nor panics");
}

/// The waker of a task that owns a guard, as tasks of many executors do.
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

        // Replaced while it waits, then left behind by the abort.
        let mut request = Box::pin(locks.lock("db").into_future());
        assert!(request.as_mut().poll(&mut Context::from_waker(&owner())).is_pending());
        assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(request.as_mut().poll(&mut Context::from_waker(&owner())).is_pending());
        drop(request);
        // The same for who watches.
        let watched = locks.lock("watched").blocking().unwrap();
        assert!(watched.poll_lost(&Context::from_waker(&owner())).is_pending());
        assert!(watched.poll_lost(&Context::from_waker(Waker::noop())).is_pending());
        assert!(watched.poll_lost(&Context::from_waker(&owner())).is_pending());
        drop(watched);
        drop(locks.lock("another").blocking().unwrap());
    });
}

/// Asks for a lock, and lets it go, from inside the call that wakes it.
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
        // Without the panic hook: nobody needs to read of it.
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

/// A waker that cannot be cloned.
fn panics_when_cloned() -> Waker {
    const DATALESS: RawWakerVTable = RawWakerVTable::new(
        |_| std::panic::resume_unwind(Box::new("a waker that panics when it is cloned")),
        |_| {},
        |_| {},
        |_| {},
    );
    // SAFETY: none of the functions looks at the pointer, and all of them may be called anywhere.
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
