//! One of several names: the first that is free.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Waker},
    time::Duration,
};

use navlock_core::{
    Error, FailedName, LockAnyFuture, LockAnyRequest, LockManager, LockOptions, Mode, UserAgent,
};

use super::{
    HAS_THREADS, Waiting, agent, assert_nothing_is_left, exclusive, settle, shared, snapshot, soon,
};

/// The future of a request that had to wait when it was made.
#[track_caller]
fn waiting(locks: &LockManager, request: LockAnyRequest) -> LockAnyFuture {
    let mut future = request.into_future();
    assert!(is_pending(&mut future), "the request was granted, and should wait");
    settle(locks);
    assert!(is_pending(&mut future), "the request was granted, and should wait");
    future
}

fn is_pending(future: &mut LockAnyFuture) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

/// The request leaves the other queues when it is granted.
pub fn the_first_lock_that_is_free_is_had(user_agent: &UserAgent) {
    let (locks, others) = (agent(user_agent), agent(user_agent));
    let held = ["a", "b", "c"].map(|name| exclusive(&others, name));
    let request = waiting(&locks, locks.lock_any(["c", "a", "b"]));
    assert_eq!(snapshot(&others).1.len(), 3);

    let [a, b, c] = held;
    drop(b);
    let guard = soon(request).unwrap();
    assert_eq!((guard.name().to_string(), guard.mode()), ("b".to_owned(), Mode::Exclusive));
    assert_eq!(snapshot(&others).1, []);
    drop((guard, a, c));

    let (reader, taken) = (shared(&others, "a"), exclusive(&others, "b"));
    let modes = || locks.lock_any_with([("a", Mode::Exclusive), ("b", Mode::Shared)]);
    let request = waiting(&locks, modes());
    drop(reader);
    drop(soon(request).unwrap());
    drop(taken);
    let reader = shared(&others, "b");
    let taken = shared(&others, "a");
    assert_eq!(soon(modes()).unwrap().mode(), Mode::Shared);
    drop((reader, taken));
    let ran = soon(locks.lock_any(["a"]).shared().run(async |lock| lock.mode()));
    assert_eq!(ran.unwrap(), Mode::Shared);
    assert_nothing_is_left(&locks);
}

/// Behind somebody who wants one of the names alone.
pub fn who_asked_first_for_one_of_several_is_served_first(user_agent: &UserAgent) {
    let (locks, others) = (agent(user_agent), agent(user_agent));
    let (a, b) = (exclusive(&others, "a"), exclusive(&others, "b"));
    let first = waiting(&locks, locks.lock_any(["a", "b"]));
    let mut second = Waiting::new(&others, others.lock("b"));
    let mut third = waiting(&locks, locks.lock_any(["b", "a"]));

    drop(b);
    let b = soon(first).unwrap();
    assert_eq!(b.name(), "b");
    assert!(second.still(&others) && is_pending(&mut third));
    drop(b);
    let b = second.granted();
    settle(&locks);
    assert!(is_pending(&mut third));
    drop(a);
    assert_eq!(soon(third).unwrap().name(), "a");
    drop(b);
    assert_nothing_is_left(&locks);
}

/// Nobody who waits for the lock that is given back loses his place.
pub fn of_two_grants_at_one_moment_one_is_given_back(user_agent: &UserAgent) {
    let (locks, others) = (agent(user_agent), agent(user_agent));
    let (a, b) = (exclusive(&others, "a"), exclusive(&others, "b"));
    let request = waiting(&locks, locks.lock_any(["a", "b"]));
    let second = Waiting::new(&others, others.lock("b"));
    let mut third = Waiting::new(&others, others.lock("b"));

    drop((a, b));
    settle(&others);
    settle(&locks);
    let guard = soon(request).unwrap();
    assert_eq!(guard.name(), "a");
    let b = second.granted();
    assert!(third.still(&others));
    drop(b);
    drop((third.granted(), guard));
    assert_nothing_is_left(&locks);
}

/// Also where one lock is granted already.
pub fn who_gives_up_leaves_the_queues_of_all_names(user_agent: &UserAgent) {
    let (locks, others) = (agent(user_agent), agent(user_agent));
    let (a, b) = (exclusive(&others, "a"), exclusive(&others, "b"));
    let request = waiting(&locks, locks.lock_any(["a", "b"]));
    let (next_a, next_b) =
        (Waiting::new(&others, others.lock("a")), Waiting::new(&others, others.lock("b")));

    // One grant is on its way.
    drop(a);
    settle(&others);
    drop(request);
    drop(next_a.granted());
    assert_eq!(snapshot(&others).1, [("b".to_owned(), Mode::Exclusive)]);
    drop(b);
    drop(next_b.granted());
    assert_nothing_is_left(&locks);
}

/// In the order of the names, and without a request for more of them than are needed.
pub fn one_of_several_is_had_at_once_or_not_at_all(user_agent: &UserAgent) {
    let (locks, others) = (agent(user_agent), agent(user_agent));
    let one = || soon(locks.lock_any(["b", "a"]).if_available()).unwrap();
    let b = exclusive(&others, "b");
    let a = one().expect("one is free");
    assert_eq!(a.name(), "a");
    assert!(one().is_none());
    assert_eq!(snapshot(&others).1, []);

    let steal = LockOptions { steal: true, ..LockOptions::default() };
    let thief = soon(locks.lock_any(["b", "a"]).with_options(steal)).unwrap().expect("it steals");
    assert_eq!(thief[0].name(), "b");
    settle(&others);
    assert!(b.is_lost() && !a.is_lost());
    drop((a, b, thief));
    assert_eq!(one().expect("both are free").name(), "b");
    assert_nothing_is_left(&locks);
}

/// A reserved name, no name, and a time that is over.
pub fn a_failure_with_one_of_several_says_which_and_leaves_nothing(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let failed = |names: &[&str]| soon(locks.lock_any(names)).unwrap_err();
    let reserved = failed(&["a", "-x"]);
    assert_eq!((reserved.error, reserved.at), (Error::ReservedName, Some(FailedName::Place(1))));
    assert!(matches!(failed(&[]).error, Error::Refused(_)));

    let held = (exclusive(&locks, "a"), exclusive(&locks, "b"));
    if HAS_THREADS {
        let late = locks.lock_any(["a", "b"]).blocking_timeout(Duration::from_millis(1));
        let late = late.unwrap_err();
        assert!(matches!(late.error, Error::TimedOut(_)), "{late}");
        assert_eq!(late.at, Some(FailedName::Name(held.0.name().clone())));
        assert_eq!(snapshot(&locks).1, []);
    }
    drop(held);
    assert_nothing_is_left(&locks);
}
