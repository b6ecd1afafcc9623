//! Requests for whichever of several names is free first.

use std::{future::IntoFuture, time::Duration};

use navlock_core::{
    Error, LockManager, UserAgent,
    blocking::{block_on, block_on_timeout},
};

fn locks() -> LockManager {
    UserAgent::new().lock_manager("app")
}

/// How many requests wait.
fn pending(locks: &LockManager) -> usize {
    block_on(locks.query()).expect("the bucket is there").pending.len()
}

#[test]
fn the_first_name_that_is_free_is_taken_and_no_other_is_requested() {
    let locks = locks();
    let first = locks.lock("a").blocking().unwrap();
    let second = locks.lock_any(["a", "b", "c"]).blocking().unwrap();
    assert_eq!(second.name(), "b");
    let seen = block_on(locks.query()).unwrap();
    assert_eq!((seen.held.len(), seen.pending.len()), (2, 0));
    drop((first, second));
    assert_eq!(locks.lock_any(["b", "a"]).blocking().unwrap().name(), "b");
}

#[test]
fn who_has_asked_first_has_what_is_free_first() {
    let locks = locks();
    let mut held: Vec<_> = ["a", "b"].map(|name| locks.lock(name).blocking().unwrap()).into();
    let mut waiting: Vec<_> = (0..2).map(|_| locks.lock_any(["a", "b"]).into_future()).collect();
    for waits in &mut waiting {
        assert!(block_on_timeout(waits, Duration::ZERO).is_none());
    }
    assert_eq!(pending(&locks), 4);
    let mut last = waiting.pop().unwrap();
    let first = waiting.pop().unwrap();
    drop(held.pop());
    let first = block_on(first).unwrap();
    assert_eq!(first.name(), "b");
    // It waits for "a" no more, and the other one is served next.
    assert_eq!(pending(&locks), 2);
    assert!(block_on_timeout(&mut last, Duration::ZERO).is_none());
    drop(held.pop());
    assert_eq!(block_on(last).unwrap().name(), "a");
    assert!(block_on(locks.query()).unwrap().pending.is_empty());
}

#[test]
fn of_two_that_are_granted_at_once_one_is_given_back_to_the_next() {
    let locks = locks();
    let held = ["a", "b"].map(|name| locks.lock(name).blocking().unwrap());
    let mut any = locks.lock_any(["a", "b"]).into_future();
    assert!(block_on_timeout(&mut any, Duration::ZERO).is_none());
    let mut next = locks.lock("b").into_future();
    assert!(block_on_timeout(&mut next, Duration::ZERO).is_none());
    drop(held);
    let any = block_on(any).unwrap();
    assert_eq!(any.name(), "a");
    assert_eq!(block_on(next).unwrap().name(), "b");
}

#[test]
fn who_gives_up_leaves_all_queues_and_holds_nothing() {
    let locks = locks();
    let held = ["a", "b"].map(|name| locks.lock(name).blocking().unwrap());
    for is_granted in [false, true] {
        let mut any = locks.lock_any(["c", "a", "b"]).into_future();
        let taken = locks.lock("c").blocking().unwrap();
        assert!(block_on_timeout(&mut any, Duration::ZERO).is_none());
        if is_granted {
            // It has not heard of the grant.
            drop(taken);
        }
        drop(any);
        assert_eq!(pending(&locks), 0);
        assert!(locks.lock("c").if_available().blocking().unwrap().is_some() || !is_granted);
    }
    let late = locks.lock_any(["a", "b"]).blocking_timeout(Duration::from_millis(1));
    assert!(matches!(late.unwrap_err().error, Error::TimedOut(_)));
    assert_eq!(pending(&locks), 0);
    drop(held);
}

#[test]
fn nothing_is_taken_where_nothing_is_free_and_no_names_are_refused() {
    let locks = locks();
    let held = ["a", "b"].map(|name| locks.lock(name).blocking().unwrap());
    assert!(locks.lock_any(["a", "b"]).if_available().blocking().unwrap().is_none());
    assert_eq!(pending(&locks), 0);
    assert_eq!(
        locks.lock_any(["a", "b", "c"]).if_available().blocking().unwrap().unwrap().name(),
        "c"
    );
    let none = locks.lock_any(Vec::<&str>::new()).blocking().unwrap_err();
    assert!(matches!(none.error, Error::Refused(_)), "{none:?}");
    drop(held);
}

#[test]
fn shared_locks_of_the_first_name_are_had_together() {
    let locks = locks();
    let both = [(); 2].map(|()| locks.lock_any(["a", "b"]).shared().blocking().unwrap());
    assert!(both.iter().all(|guard| guard.name() == "a"));
    let alone = locks.lock_any(["a", "b"]).blocking().unwrap();
    assert_eq!(alone.name(), "b");
}
