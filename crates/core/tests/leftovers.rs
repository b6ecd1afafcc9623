//! Things that end leave nothing behind: agents that were terminated, locks that were stolen or
//! watched, buckets that nobody uses.

#![allow(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Wake, Waker},
};

use navlock_core::{LockManager, UserAgent, host::MemoryReach, look::LookOptions};

const ROUNDS: usize = 10_000;

/// Calls `what` for some rounds, which may allocate lasting memory. Then checks that further rounds
/// leave nothing.
#[track_caller]
fn leaves_nothing_behind(mut what: impl FnMut(usize)) {
    // Tables double while they fill for the first time. These rounds let them grow to their size.
    (0..ROUNDS).for_each(&mut what);
    let before = ALLOCATED.get();
    (ROUNDS..2 * ROUNDS).for_each(&mut what);
    let after = ALLOCATED.get();
    assert!(after <= before, "{} bytes more after {ROUNDS} rounds", after - before);
}

fn locks() -> LockManager {
    UserAgent::new().lock_manager("app")
}

#[test]
fn agents_that_were_terminated() {
    let bucket = locks().bucket();
    leaves_nothing_behind(|_| {
        let locks = bucket.lock_manager();
        let guard = locks.lock("db").blocking().unwrap();
        locks.terminate();
        assert!(guard.is_lost());
        assert!(locks.lock("db").blocking().is_err());
    });
}

#[test]
fn guards_that_outlive_their_handles() {
    let bucket = locks().bucket();
    let stays = bucket.lock_manager();
    leaves_nothing_behind(|_| {
        // The order in which handles and guards are dropped does not matter. A lost guard is
        // dropped like any other.
        let [one, other] = [(); 2].map(|()| bucket.lock_manager());
        let (held, lost) = (one.lock("db").blocking().unwrap(), other.lock("log").blocking());
        let another = other.lock("other").blocking().unwrap();
        drop((one, other));
        assert!(!held.is_lost());
        let thief = stays.lock("log").steal().blocking().unwrap();
        assert!(lost.as_ref().unwrap().is_lost());
        drop((held, lost, another, thief));
    });
}

#[test]
fn requests_that_outlive_their_handles() {
    let bucket = locks().bucket();
    let stays = bucket.lock_manager();
    leaves_nothing_behind(|_| {
        let mut context = Context::from_waker(Waker::noop());
        let holder = stays.lock("db").blocking().unwrap();
        let mut granted = Box::pin(bucket.lock_manager().lock("db").into_owned());
        assert!(granted.as_mut().poll(&mut context).is_pending());
        let mut given_up = Box::pin(bucket.lock_manager().lock("db").into_owned());
        assert!(given_up.as_mut().poll(&mut context).is_pending());
        drop((holder, given_up));
        assert!(granted.as_mut().poll(&mut context).is_ready());
    });
}

#[test]
fn looks_that_are_over() {
    let user_agent = UserAgent::with_memory(MemoryReach::default().with_shards(1));
    let locks = user_agent.lock_manager("app");
    let kept = locks.lock("kept").blocking().unwrap();
    let mut made = 0;
    leaves_nothing_behind(|round| {
        // Only some rounds look, because a picture waits for its turn.
        if round % 8 == 0 {
            let mut looker = user_agent.look(LookOptions::default()).unwrap();
            looker.next(None).unwrap().unwrap();
            let other = user_agent.lock_manager("other");
            drop((locks.lock("db").blocking().unwrap(), other.lock("db").blocking().unwrap()));
            made += 1;
        }
        drop(locks.lock("db").blocking().unwrap());
    });
    assert_eq!(made, 2 * ROUNDS / 8);
    drop(kept);
}

#[test]
fn a_crowd_of_agents() {
    const CROWD: usize = 100_000;
    let bucket = locks().bucket();
    // All agents of the crowd live at the same time, each with a lock. One more agent stays.
    let stays = bucket.lock_manager();
    drop(stays.lock("db").blocking().unwrap());
    let before = ALLOCATED.get();
    let crowd: Vec<_> = (0..CROWD)
        .map(|nth| {
            let locks = bucket.lock_manager();
            let guard = locks.lock(format!("{nth}")).blocking().unwrap();
            (locks, guard)
        })
        .collect();
    assert!(ALLOCATED.get() > before + 100 * 100_000, "the allocator counts");
    drop(crowd);
    let more = ALLOCATED.get() - before;
    // Every table keeps a few places.
    assert!(more < 100_000, "{more} bytes more after {CROWD} agents");
}

#[test]
fn a_handle_costs_the_same_however_many_shards_there_are() {
    let cost = |shards, with_a_lock: bool| {
        let reach = MemoryReach::default().with_shards(shards);
        let bucket = UserAgent::with_memory(reach).bucket("app");
        let handles = || -> Vec<_> {
            (0..1_000)
                .map(|_| {
                    let locks = bucket.lock_manager();
                    if with_a_lock {
                        drop(locks.lock("db").blocking().unwrap());
                    }
                    locks
                })
                .collect()
        };
        // The first handles allocate what all handles share.
        drop(handles());
        let before = ALLOCATED.get();
        let _handles = handles();
        ALLOCATED.get() - before
    };
    for with_a_lock in [false, true] {
        let (few, many) = (cost(1, with_a_lock), cost(256, with_a_lock));
        assert_eq!(few, many, "bytes of 1,000 handles with one shard and with 256");
    }
}

#[test]
fn a_handle_costs_what_it_uses_and_not_what_it_could() {
    let bucket = UserAgent::with_memory(MemoryReach::default().with_shards(256)).bucket("app");
    let handles = || -> Vec<_> {
        (0..1_000)
            .map(|_| {
                let locks = bucket.lock_manager();
                for name in ["a", "b"] {
                    drop(locks.lock(name).blocking().unwrap());
                }
                locks
            })
            .collect()
    };
    drop(handles());
    let before = ALLOCATED.get();
    let _handles = handles();
    let each = (ALLOCATED.get() - before) / 1_000;
    assert!(each < 2_500, "{each} bytes for each handle that used two names");
}

#[test]
fn a_crowd_that_was_stolen_from() {
    let locks = UserAgent::with_memory(MemoryReach::default().with_shards(1)).lock_manager("app");
    let thief = || drop(locks.lock("db").steal().blocking().unwrap());
    thief();
    let before = ALLOCATED.get();
    let crowd: Vec<_> =
        (0..100_000).map(|_| locks.lock("db").shared().blocking().unwrap()).collect();
    thief();
    drop(crowd);
    let more = ALLOCATED.get() - before;
    // Every table keeps a few places.
    assert!(more < 100_000, "{more} bytes more after 100,000 victims");
}

#[test]
fn locks_that_were_stolen() {
    let locks = locks();
    leaves_nothing_behind(|_| {
        let victim = locks.lock("db").blocking().unwrap();
        let thief = locks.lock("db").steal().blocking().unwrap();
        drop((victim, thief));
    });
}

#[test]
fn locks_that_were_watched() {
    let locks = locks();
    leaves_nothing_behind(|_| {
        let guard = locks.lock("db").blocking().unwrap();
        let lost = pin!(guard.lost());
        assert!(lost.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    });
}

#[test]
fn wakers_of_who_watched_a_lock_that_has_ended() {
    struct Nobody;

    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }

    let locks = locks();
    let watcher = Arc::new(Nobody);
    let guard = locks.lock("db").blocking().unwrap().into_polled();
    let waker = Waker::from(Arc::clone(&watcher));
    assert!(guard.poll_lost(&Context::from_waker(&waker)).is_pending());
    drop((guard, waker));
    assert_eq!(Arc::strong_count(&watcher), 1);
}

#[test]
fn names_and_requests_that_were_given_up() {
    let locks = locks();
    let _holder = locks.lock("db").blocking().unwrap();
    leaves_nothing_behind(|round| {
        drop(locks.lock(format!("a name that is used once, the {round}th")).blocking().unwrap());
        let request = pin!(locks.request("db", async |_| ()));
        assert!(request.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    });
}

#[test]
fn buckets_that_nobody_uses() {
    let user_agent = UserAgent::new();
    leaves_nothing_behind(|round| {
        let locks = user_agent.lock_manager(&format!("bucket {round:05}"));
        drop(locks.lock("db").blocking().unwrap());
    });
}

thread_local! {
    /// The bytes that this thread has allocated and not freed. Each test has its own thread.
    static ALLOCATED: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed to the system's allocator unchanged. The counting neither allocates
// nor panics: the counter is initialised at compile time, is never dropped, and wraps around.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get().wrapping_add_unsigned(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        ALLOCATED.set(ALLOCATED.get().wrapping_sub_unsigned(layout.size()));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(place, layout) }
    }
}
