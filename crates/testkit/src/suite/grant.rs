//! Rules 7 to 13: the grant and the callback; fencing tokens; several names; blocking.

use std::{
    cell::Cell,
    future::{Future, IntoFuture, pending},
    panic::{AssertUnwindSafe, catch_unwind},
    task::{Context, Waker},
    thread,
    time::Duration,
};

use navlock_core::{Error, Lost, Mode, UserAgent};

use super::{
    HAS_THREADS, Waiting, agent, assert_nothing_is_left, exclusive, settle, shared, snapshot, soon,
};

/// Rule 7: a callback never runs inside `request()`.
pub fn nothing_happens_before_the_future_is_polled(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let ran = Cell::new(false);
    let request = locks.request("db", async |_| ran.set(true));
    let guard = locks.lock("db");
    assert_nothing_is_left(&locks);
    assert!(!ran.get());

    drop(guard);
    soon(request).unwrap();
    assert!(ran.get());
}

/// Rule 8: an abort between the grant and the callback.
pub fn a_grant_that_nobody_takes_goes_to_the_next(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let holder = exclusive(&locks, "db");
    let ran = Cell::new(false);
    let mut aborted = Box::pin(locks.request("db", async |_| ran.set(true)));
    assert!(aborted.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let mut next = Waiting::new(&locks, locks.lock("db"));

    drop(holder);
    // The lock is granted, and nobody polls for the grant. Now the request is aborted.
    assert!(next.still(&locks));
    assert_eq!(snapshot(&locks).0.len(), 1);
    drop(aborted);
    drop(next.granted());
    assert!(!ran.get());
    assert_nothing_is_left(&locks);
}

/// Rules 7 and 13.
pub fn a_callback_runs_under_the_lock_and_gives_its_result(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let result = soon(locks.request("db", async |lock| {
        assert_eq!(lock.name().as_str(), Some("db"));
        assert_eq!(lock.mode(), Mode::Exclusive);
        let state = locks.query().await.unwrap();
        assert_eq!(state.held.len(), 1);
        "done"
    }));
    assert_eq!(result, Ok("done"));

    let result = soon(locks.lock("db").shared().run(async |lock| lock.mode()));
    assert_eq!(result, Ok(Mode::Shared));
    assert_nothing_is_left(&locks);
}

/// Rule 12.
pub fn the_lock_is_free_once_the_request_has_settled(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    for _ in 0..100 {
        soon(locks.request("db", async |_| ())).unwrap();
        assert!(soon(locks.lock("db").if_available()).unwrap().is_some());
    }
}

/// Rule 10.
pub fn a_callback_that_panics_releases(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        soon(locks.request("db", async |_| -> () { std::panic::resume_unwind(Box::new(())) }))
    }));
    assert!(panicked.is_err());
    drop(exclusive(&locks, "db"));
}

/// Rule 26: the work of a dropped holder has stopped before the next holder starts.
pub fn a_callback_that_is_dropped_ends_before_its_lock(user_agent: &UserAgent) {
    /// Records whether the lock is still held while the callback's future is dropped.
    struct AtEnd<'a>(&'a UserAgent, &'a Cell<Option<usize>>);
    impl Drop for AtEnd<'_> {
        fn drop(&mut self) {
            self.1.set(Some(snapshot(&agent(self.0)).0.len()));
        }
    }

    let locks = agent(user_agent);
    let held_at_end = Cell::new(None);
    let request = locks.request("db", async |_| {
        let _at_end = AtEnd(user_agent, &held_at_end);
        pending::<()>().await;
    });
    let mut request = Box::pin(request);
    let mut poll = || {
        let poll = request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll.is_pending());
        settle(&locks);
    };
    // This makes the request, grants it and calls the callback: in one poll, or in two if the grant
    // takes a message.
    poll();
    poll();
    drop(request);
    assert_eq!(held_at_end.get(), Some(1));
    assert_nothing_is_left(&locks);
}

/// `ifAvailable` with a callback.
pub fn if_available_runs_the_callback_without_a_lock(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let holder = exclusive(&locks, "db");
    let got = soon(locks.lock("db").if_available().run(async |lock| lock.is_some()));
    assert_eq!(got, Ok(false));
    drop(holder);
    let got = soon(locks.lock("db").if_available().run(async |lock| lock.is_some()));
    assert_eq!(got, Ok(true));
    assert_nothing_is_left(&locks);
}

/// Fencing tokens.
pub fn fencing_tokens_grow_with_every_grant_of_a_name(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let mut last = exclusive(&locks, "db").fencing_token();
    for round in 0..20 {
        let guard = match round % 3 {
            0 => shared(&locks, "db"),
            1 => exclusive(&locks, "db"),
            _ => soon(locks.lock("db").steal()).unwrap(),
        };
        assert!(guard.fencing_token() > last);
        last = guard.fencing_token();
    }
}

/// Fencing tokens of a bucket that nobody has used for a while.
pub fn fencing_tokens_grow_over_the_life_of_a_bucket(user_agent: &UserAgent) {
    let mut last = None;
    for _ in 0..10 {
        let token = exclusive(&agent(user_agent), "db").fencing_token();
        assert!(Some(token) > last);
        last = Some(token);
    }
}

/// Several names: all requests take them in the same order, however the names are given.
pub fn several_names_are_taken_in_one_order(user_agent: &UserAgent) {
    thread::scope(|scope| {
        for names in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
            scope.spawn(move || {
                let locks = agent(user_agent);
                for _ in 0..200 {
                    let taken = soon(locks.request_all(names, async |locks| {
                        locks.iter().map(|lock| lock.name().to_string()).collect::<Vec<_>>()
                    }));
                    assert_eq!(taken.unwrap(), ["a", "b", "c"]);
                }
            });
        }
    });
    assert_nothing_is_left(&agent(user_agent));
}

/// Several names: a request never deadlocks with itself.
pub fn a_name_given_twice_is_taken_once(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let guards = soon(locks.lock_all(["b", "a", "b", "a"])).unwrap();
    assert_eq!(guards.len(), 2);
    drop(guards);
    let readers = soon(locks.lock_all(["a", "b"]).shared()).unwrap();
    assert_eq!(readers[0].mode(), Mode::Shared);
    drop((shared(&locks, "a"), shared(&locks, "b")));
    drop(readers);
    assert!(soon(locks.lock_all(Vec::<String>::new())).unwrap().is_empty());
    assert_nothing_is_left(&locks);
}

/// Several names: some shared, some exclusive.
pub fn several_names_are_taken_each_in_its_mode(user_agent: &UserAgent) {
    use Mode::{Exclusive, Shared};

    let locks = agent(user_agent);
    let names = [("b", Shared), ("c", Shared), ("a", Exclusive), ("c", Exclusive), ("b", Shared)];
    let guards = soon(locks.lock_all_with(names)).unwrap();
    let taken: Vec<_> =
        guards.iter().map(|guard| (guard.name().to_string(), guard.mode())).collect();
    let expected = [("a", Exclusive), ("b", Shared), ("c", Exclusive)];
    assert_eq!(taken, expected.map(|(name, mode)| (name.to_owned(), mode)));
    drop(shared(&locks, "b"));
    drop(guards);
    assert_nothing_is_left(&locks);
}

/// Several names: they are held together.
pub fn losing_one_of_several_locks_releases_all(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let result = soon(locks.request_all(["a", "b"], async |_| {
        drop(locks.lock("b").steal().await.unwrap());
        pending::<()>().await;
    }));
    assert_eq!(result.unwrap_err().to_string(), "\"b\": the lock was stolen by another request");
    assert_nothing_is_left(&locks);
}

/// Several names: all of them at once, or none of them.
pub fn several_names_are_had_at_once_or_not_at_all(user_agent: &UserAgent) {
    let (locks, others) = (agent(user_agent), agent(user_agent));
    let all = || locks.lock_all(["c", "a", "b"]).if_available();
    // The name that cannot be had may be the first, the middle or the last.
    for taken in ["a", "b", "c"] {
        let holder = exclusive(&others, taken);
        assert!(soon(all()).unwrap().is_none());
        let (held, pending) = snapshot(&others);
        assert_eq!((held, pending), (vec![(taken.to_owned(), Mode::Exclusive)], vec![]));
        let without = soon(all().run(async |locks| locks.is_none()));
        assert_eq!(without, Ok(true));
        drop(holder);
    }
    let reader = shared(&others, "b");
    assert!(soon(all()).unwrap().is_none());
    let guards = soon(all().shared()).unwrap().expect("all of them can be shared");
    assert_eq!(guards.len(), 3);
    drop((guards, reader));
    let with = soon(all().run(async |locks| locks.map(|locks| locks.len())));
    assert_eq!(with, Ok(Some(3)));
    assert_nothing_is_left(&locks);
}

/// Several names: an error says to which name it belongs.
pub fn a_failure_with_several_names_says_which(user_agent: &UserAgent) {
    use navlock_core::FailedName::{Name, Place};

    let (locks, others) = (agent(user_agent), agent(user_agent));
    let failed = |names: &[&str]| soon(locks.lock_all(names)).unwrap_err();
    let reserved = failed(&["b", "a", "-x"]);
    assert_eq!((&reserved.error, &reserved.at), (&Error::ReservedName, &Some(Place(2))));
    assert!(reserved.to_string().starts_with("name 3: "), "{reserved}");
    assert_eq!(Error::from(reserved), Error::ReservedName);

    let holder = exclusive(&others, "b");
    if HAS_THREADS {
        // Each time is longer. On a busy machine, the request may not get beyond the first name in
        // a shorter time.
        let times = [20, 500, 10_000].map(Duration::from_millis);
        let late = |time| locks.lock_all(["c", "b", "a"]).blocking_timeout(time).unwrap_err();
        let is_b = Some(Name(holder.name().clone()));
        let late = times.into_iter().map(late).find(|late| late.at == is_b);
        assert!(matches!(late.map(|late| late.error), Some(Error::TimedOut(_))));
    }

    locks.terminate();
    let ended = failed(&["a", "-"]);
    assert_eq!((&ended.error, &ended.at), (&Error::Terminated, &None));
    assert_eq!(ended.to_string(), Error::Terminated.to_string());
    drop(holder);
    assert_nothing_is_left(&others);
}

/// Several names: the first lock may be lost while the request waits for the last one.
pub fn a_lock_lost_while_another_is_waited_for_is_not_used(user_agent: &UserAgent) {
    let (locks, others) = (agent(user_agent), agent(user_agent));
    for with_callback in [true, false] {
        let holder = exclusive(&others, "b");
        let ran = Cell::new(false);
        let mut request: std::pin::Pin<Box<dyn Future<Output = _>>> = if with_callback {
            Box::pin(async { Ok(locks.request_all(["a", "b"], async |_| ran.set(true)).await?) })
        } else {
            Box::pin(async {
                drop(locks.lock_all(["a", "b"]).await?);
                Ok(())
            })
        };
        let mut context = Context::from_waker(Waker::noop());
        while snapshot(&others).1.is_empty() {
            assert!(request.as_mut().poll(&mut context).is_pending());
        }
        let thief = soon(others.lock("a").steal()).unwrap();

        drop(holder);
        assert_eq!(soon(request), Err(Error::Lost(Lost::Stolen)));
        assert!(!ran.get() && !thief.is_lost());
        drop(thief);
    }
    assert_nothing_is_left(&locks);
}

/// Several names: once one lock is lost, the request waits for no other lock.
pub fn losing_a_lock_ends_the_wait_for_another(user_agent: &UserAgent) {
    let (locks, others) = (agent(user_agent), agent(user_agent));
    let holder = exclusive(&others, "b");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| soon(locks.lock_all(["a", "b"])).map(drop));
        while snapshot(&others).1.is_empty() {
            thread::yield_now();
        }
        let thief = soon(others.lock("a").steal()).unwrap();
        let failed = waiter.join().unwrap().unwrap_err();
        assert_eq!(failed.to_string(), "\"a\": the lock was stolen by another request");
        assert!(!thief.is_lost());
    });
    drop(holder);
    assert_nothing_is_left(&locks);
}

/// A thread waits without an executor.
pub fn blocking_waits_for_its_turn(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let holder = exclusive(&locks, "db");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| agent(user_agent).lock("db").blocking().map(drop));
        while snapshot(&locks).1.is_empty() {
            thread::yield_now();
        }
        drop(holder);
        waiter.join().unwrap().unwrap();
    });
}

/// A future that blocks in a blocking call must not swallow the outer call's wake-up.
pub fn blocking_within_blocking_wakes_both(user_agent: &UserAgent) {
    let (locks, others) = (agent(user_agent), agent(user_agent));
    let (outer, inner) = (exclusive(&others, "outer"), exclusive(&others, "inner"));
    thread::scope(|scope| {
        scope.spawn(|| {
            while snapshot(&others).1.len() < 2 {
                thread::yield_now();
            }
            // The outer wake-up comes while the inner call blocks the thread.
            drop(outer);
            settle(&others);
            drop(inner);
        });
        let mut waiting = Box::pin(locks.lock("outer").into_future());
        let mut first = true;
        let guard = soon(std::future::poll_fn(|context| {
            let poll = waiting.as_mut().poll(context);
            // The first poll may have a waker that does nothing. So the inner call blocks in the second
            // poll, which has left a waker of the outer call.
            if poll.is_pending() && !std::mem::replace(&mut first, false) {
                drop(locks.lock("inner").blocking().unwrap());
            }
            poll
        }));
        drop(guard.unwrap());
    });
}

/// A timeout is an abort.
pub fn blocking_with_a_timeout_leaves_the_queue(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let holder = exclusive(&locks, "db");
    for timeout in [Duration::ZERO, Duration::from_millis(5)] {
        let result = locks.lock("db").blocking_timeout(timeout);
        assert!(matches!(result.unwrap_err(), Error::TimedOut(_)));
        assert_eq!(snapshot(&locks).1, vec![]);
    }
    drop(holder);
    drop(locks.lock("db").blocking_timeout(Duration::MAX).unwrap());
}
