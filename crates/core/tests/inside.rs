//! Which request is made inside which lock, and what happens to requests that wait for each other.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::{
    cell::{Cell, RefCell},
    future::{Future, IntoFuture, pending, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use navlock_core::{
    Bucket, ClientId, Error, FailedName, LockGuard, LockManager, LockOptions, Mode, UserAgent,
    blocking::block_on,
    host::{MemoryReach, Reach, RequestKind},
    look::LockId,
};

fn bucket() -> Bucket {
    UserAgent::new().bucket("app")
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn held(locks: &LockManager, name: &str) -> LockGuard {
    locks.lock(name).blocking().unwrap()
}

/// Runs two callbacks, each of which asks for the other's lock. Returns whether the second one
/// fails in the deadlock.
fn second_of_two(ask: &impl AsyncFn(&LockManager, &str) -> Result<(), Error>) -> bool {
    second_of(&bucket(), ask)
}

/// The same in a given bucket.
fn second_of(bucket: &Bucket, ask: &impl AsyncFn(&LockManager, &str) -> Result<(), Error>) -> bool {
    let (one, two) = (bucket.lock_manager(), bucket.lock_manager());
    let begun = Cell::new(false);
    let mut first = pin!(one.request("a", async |_| {
        // The other callback has its lock from this point on.
        poll_fn(|_| if begun.get() { Poll::Ready(()) } else { Poll::Pending }).await;
        ask(&one, "b").await
    }));
    let mut second = pin!(two.request("b", async |_| {
        poll_fn(|_| if begun.replace(true) { Poll::Ready(()) } else { Poll::Pending }).await;
        ask(&two, "a").await
    }));
    assert!(poll_once(first.as_mut()).is_pending());
    assert!(poll_once(second.as_mut()).is_pending());
    assert!(poll_once(first.as_mut()).is_pending());
    assert!(poll_once(second.as_mut()).is_pending());
    match poll_once(second.as_mut()) {
        Poll::Pending => false,
        Poll::Ready(answer) => {
            assert!(matches!(answer.unwrap(), Err(Error::Deadlock(_))));
            // The failure releases the lock for which the first callback has waited.
            assert_eq!(block_on(first), Ok(Ok(())));
            true
        }
    }
}

#[test]
fn a_request_of_a_callback_is_inside_its_lock() {
    let asked =
        async |locks: &LockManager, name: &str| locks.lock(name).fail_on_deadlock().await.map(drop);
    assert!(second_of_two(&asked));
}

#[test]
fn a_request_of_a_callback_in_another_callback_is_inside_both_locks() {
    let asked = async |locks: &LockManager, name: &str| {
        let between = format!("between-{}", locks.client_id());
        let asked = locks.request(between.as_str(), async |_| {
            locks.lock(name).fail_on_deadlock().await.map(drop)
        });
        asked.await?
    };
    assert!(second_of_two(&asked));
}

#[test]
fn several_names_wait_for_the_next_inside_those_before() {
    let bucket = bucket();
    let (one, two) = (bucket.lock_manager(), bucket.lock_manager());
    let c = held(&two, "c");
    let mut all = pin!(one.lock_all(["b", "c"]).into_future());
    assert!(poll_once(all.as_mut()).is_pending());
    let refused = two.lock("b").inside(&c).fail_on_deadlock().blocking();
    assert!(matches!(refused, Err(Error::Deadlock(_))), "{refused:?}");
}

#[test]
fn several_names_tell_how_far_they_are_and_fail_in_a_deadlock_that_they_close() {
    let bucket = bucket();
    let [one, two, three] = [(); 3].map(|()| bucket.lock_manager());
    let (b, c) = (held(&three, "b"), held(&two, "c"));
    let mut all = pin!(one.lock_all(["c", "b", "a"]).fail_on_deadlock().into_future());
    assert!(all.taken().len() == 0 && all.name().is_none());
    assert!(poll_once(all.as_mut()).is_pending());
    assert!(all.taken().map(navlock_core::Lock::name).eq(["a"]));
    assert_eq!(all.name(), Some(b.name()));

    let mut other = pin!(two.lock("a").inside(&c).into_future());
    assert!(poll_once(other.as_mut()).is_pending());
    assert!(all.deadlock().is_none());
    drop(b);
    let Poll::Ready(Err(failed)) = poll_once(all.as_mut()) else { panic!("it waits") };
    assert!(matches!(failed.error, Error::Deadlock(_)), "{failed:?}");
    assert_eq!(failed.at, Some(FailedName::Name(c.name().clone())));
    assert_eq!(all.taken().len(), 0);
    assert!(poll_once(other.as_mut()).is_ready());
}

#[test]
fn several_names_know_of_a_deadlock_that_another_has_closed() {
    let bucket = bucket();
    let (one, two) = (bucket.lock_manager(), bucket.lock_manager());
    let c = held(&two, "c");
    let mut all = pin!(one.lock_all(["b", "c"]).fail_on_deadlock().into_future());
    assert!(poll_once(all.as_mut()).is_pending());
    let mut last = pin!(two.lock("b").inside(&c).into_future());
    assert!(poll_once(last.as_mut()).is_pending());
    assert!(all.deadlock().is_some_and(|deadlock| deadlock.gives_way));
    let Poll::Ready(Err(failed)) = poll_once(all.as_mut()) else { panic!("it waits") };
    assert!(matches!(failed.error, Error::Deadlock(_)), "{failed:?}");
    assert!(poll_once(last.as_mut()).is_ready());
}

#[test]
fn a_user_agent_that_is_to_has_all_its_requests_fail_and_nobody_elses() {
    let plain = async |locks: &LockManager, name: &str| locks.lock(name).await.map(drop);
    let several =
        async |locks: &LockManager, name: &str| Ok(locks.lock_all([name, "z"]).await.map(drop)?);
    let user_agent = || UserAgent::new().fail_on_deadlock().bucket("app");
    assert!(second_of(&user_agent(), &plain));
    assert!(second_of(&user_agent(), &several));
    // A request with a signal may give up by itself.
    let options = LockOptions { signal: true, ..LockOptions::default() };
    let signalled =
        async |locks: &LockManager, name: &str| locks.lock_with(name, options).await.map(drop);
    assert!(!second_of(&user_agent(), &signalled));
    // A shared user agent affects only the requests that are made through this handle.
    let [mine, others] = [(); 2].map(|()| UserAgent::in_process());
    let mine = mine.clone().fail_on_deadlock();
    assert!(second_of(&mine.bucket("those of who has asked for it"), &plain));
    assert!(!second_of(&others.bucket("those of others"), &plain));
}

#[test]
fn nothing_is_kept_of_a_task_that_has_ended() {
    struct Task;
    impl std::task::Wake for Task {
        fn wake(self: std::sync::Arc<Self>) {}
    }
    let locks = bucket().lock_manager();
    let a = held(&locks, "a");
    let task = std::sync::Arc::new(Task);
    let waker = Waker::from(std::sync::Arc::clone(&task));
    // One request is inside a callback, and one is by itself. The first is dropped with its
    // callback, and the other is granted.
    let mut inside =
        Box::pin(locks.request("b", async |_| locks.lock("a").fail_on_deadlock().await.map(drop)));
    let mut alone = Box::pin(locks.lock("a").fail_on_deadlock().into_future());
    let mut context = Context::from_waker(&waker);
    assert!(inside.as_mut().poll(&mut context).is_pending());
    assert!(alone.as_mut().poll(&mut context).is_pending());
    drop(inside);
    drop(a);
    assert!(alone.as_mut().poll(&mut context).is_ready());
    drop((alone, waker));
    assert_eq!(std::sync::Arc::strong_count(&task), 1);
}

#[test]
fn a_request_without_fail_on_deadlock_waits() {
    let asked = async |locks: &LockManager, name: &str| locks.lock(name).await.map(drop);
    assert!(!second_of_two(&asked));
}

#[test]
fn a_request_that_may_give_up_by_itself_is_inside_nothing() {
    let options = LockOptions { signal: true, ..LockOptions::default() };
    let asked = async |locks: &LockManager, name: &str| {
        locks.lock_with(name, options).fail_on_deadlock().await.map(drop)
    };
    assert!(!second_of_two(&asked));

    let locks = bucket().lock_manager();
    let a = held(&locks, "a");
    let late = locks.lock("a").inside(&a).fail_on_deadlock();
    let late = late.blocking_timeout(Duration::from_millis(1));
    assert!(matches!(late.unwrap_err(), Error::TimedOut(_)));
}

#[test]
fn a_waiter_behind_a_request_that_may_give_up_is_in_no_deadlock() {
    for signal in [false, true] {
        let bucket = bucket();
        let [one, two, three] = [(); 3].map(|()| bucket.lock_manager());
        let a = one.lock("a").shared().blocking().unwrap();
        let b = held(&two, "b");
        let options = LockOptions { signal, ..LockOptions::default() };
        let mut between = Box::pin(three.lock_with("a", options).into_future());
        assert!(poll_once(between.as_mut()).is_pending());
        let behind = two.lock("a").shared().inside(&b).fail_on_deadlock();
        let mut behind = pin!(behind.into_future());
        assert!(poll_once(behind.as_mut()).is_pending());
        let mut last = pin!(one.lock("b").inside(&a).fail_on_deadlock().into_future());
        let answer = poll_once(last.as_mut());
        if !signal {
            assert!(matches!(answer, Poll::Ready(Err(Error::Deadlock(_)))), "{answer:?}");
            continue;
        }
        assert!(answer.is_pending(), "{answer:?}");
        drop(between);
        assert!(poll_once(behind.as_mut()).is_ready());
        drop(b);
        assert!(poll_once(last.as_mut()).is_ready());
    }
}

#[test]
fn of_two_by_which_there_came_to_be_a_cycle_one_fails() {
    let bucket = MemoryReach::default().open_bucket("app");
    let agents = [(); 2].map(|()| ClientId::random());
    let [one, two] = agents.map(|client_id| (bucket.open_agent(client_id), client_id));
    let request = |(agent, client_id), name: &str| {
        let (of, kind) = (name.try_into().unwrap(), RequestKind::Wait(Mode::Exclusive));
        let (ticket, _) = bucket.request(agent, &of, kind, <_>::default(), Waker::noop()).unwrap();
        (ticket, LockId { client_id, serial: bucket.serial(ticket) })
    };
    let ((a, a_id), (_, b_id), (_, c_id)) =
        (request(one, "a"), request(two, "b"), request(two, "c"));
    let ((by_two, _), (by_one, _)) = (request(two, "a"), request(one, "b"));
    bucket.put_inside(by_two, b_id);
    bucket.put_inside(by_one, a_id);
    // This request has closed the cycle, so it must fail.
    assert!(bucket.fail_in_deadlock(by_one).is_some());
    // Before it has failed, the other request is put inside another lock.
    bucket.put_inside(by_two, c_id);
    assert_eq!(bucket.fail_in_deadlock(by_two), None);
    bucket.finish(by_one);
    bucket.finish(a);
    assert!(bucket.poll_request(by_two, Waker::noop()).is_ready());
}

#[test]
fn a_request_of_a_task_in_another_thread_is_inside_nothing() {
    let asked = async |locks: &LockManager, name: &str| {
        let mut task = pin!(locks.lock(name).fail_on_deadlock().into_owned());
        // Another thread makes and polls the request while the callback is polled. That thread does
        // not poll the callback.
        poll_fn(|_| {
            let polled = thread::scope(|scope| scope.spawn(|| poll_once(task.as_mut())).join());
            let polled = polled.unwrap();
            assert_eq!(waits_for(locks, name), polled.is_pending());
            polled
        })
        .await
        .map(drop)
    };
    assert!(!second_of_two(&asked));
}

#[test]
fn a_request_of_a_task_in_the_same_thread_is_inside_nothing() {
    let bucket = bucket();
    let (one, two) = (bucket.lock_manager(), bucket.lock_manager());
    let tasks = RefCell::new(Vec::new());
    let spawns = async |locks: &LockManager, name: &str| {
        tasks.borrow_mut().push(Box::pin(locks.lock(name).fail_on_deadlock().into_owned()));
        pending::<()>().await;
    };
    let mut callbacks = [("a", &one, "b"), ("b", &two, "a")].map(|(held, locks, asked)| {
        let spawns = &spawns;
        Box::pin(locks.request(held, async move |_| spawns(locks, asked).await))
    });
    // The executor takes turns: the callbacks begin, the tasks ask, and then all of them are polled
    // again.
    for _ in 0..3 {
        assert!(callbacks.iter_mut().all(|callback| poll_once(callback.as_mut()).is_pending()));
        let mut tasks = tasks.borrow_mut();
        assert_eq!(tasks.len(), 2);
        for task in &mut *tasks {
            assert!(poll_once(task.as_mut()).is_pending());
        }
    }
    assert!(waits_for(&one, "b") && waits_for(&two, "a"));
    assert!(tasks.borrow().iter().all(|task| task.deadlock().is_none()));
}

/// Whether somebody waits for this name.
fn waits_for(locks: &LockManager, name: &str) -> bool {
    block_on(locks.query()).unwrap().pending.iter().any(|waits| waits.name == name)
}

#[test]
fn of_three_in_a_cycle_the_last_one_is_refused() {
    let bucket = bucket();
    let agents = [(); 3].map(|()| bucket.lock_manager());
    let names = ["a", "b", "c"];
    let guards: Vec<_> = agents.iter().zip(names).map(|(locks, name)| held(locks, name)).collect();
    let mut waits: Vec<_> = (0..2)
        .map(|at| {
            let request = agents[at].lock(names[at + 1]).inside(&guards[at]).fail_on_deadlock();
            Box::pin(request.into_future())
        })
        .collect();
    assert!(waits.iter_mut().all(|request| poll_once(request.as_mut()).is_pending()));
    assert!(waits.iter().all(|request| request.deadlock().is_none()));
    let last = || agents[2].lock("a").inside(&guards[2]);
    let told = match last().fail_on_deadlock().blocking() {
        Err(Error::Deadlock(told)) => told,
        other => panic!("{other:?}"),
    };
    assert_eq!(told.lines().count(), 4, "{told}");
    assert!(waits.iter().all(|request| request.deadlock().is_none()));
    // This request does not ask to fail, so it waits, and of the others the last one is to fail.
    let mut last = pin!(last().into_future());
    assert!(poll_once(last.as_mut()).is_pending());
    assert!(last.deadlock().is_some_and(|deadlock| !deadlock.gives_way));
    let [first, second] = &mut waits[..] else { unreachable!() };
    assert!(first.deadlock().is_some_and(|deadlock| !deadlock.gives_way));
    assert!(matches!(poll_once(second.as_mut()), Poll::Ready(Err(Error::Deadlock(_)))));
}

#[test]
fn hand_over_hand_is_no_cycle() {
    let bucket = bucket();
    let (one, two) = (bucket.lock_manager(), bucket.lock_manager());
    // The first agent walks along a list, and the other agent follows.
    let a = held(&one, "a");
    let b = one.lock("b").inside(&a).blocking().unwrap();
    drop(a);
    let a = held(&two, "a");
    let mut follows = pin!(two.lock("b").inside(&a).fail_on_deadlock().into_future());
    assert!(poll_once(follows.as_mut()).is_pending());
    let c = one.lock("c").inside(&b).fail_on_deadlock().blocking().unwrap();
    drop(b);
    assert!(poll_once(follows.as_mut()).is_ready());
    drop(c);
}

#[test]
fn a_theft_breaks_a_cycle() {
    let bucket = bucket();
    let (one, two) = (bucket.lock_manager(), bucket.lock_manager());
    let (a, b) = (held(&one, "a"), held(&two, "b"));
    let mut waits = pin!(one.lock("b").inside(&a).into_future());
    assert!(poll_once(waits.as_mut()).is_pending());
    let mut last = pin!(two.lock("a").inside(&b).into_future());
    assert!(poll_once(last.as_mut()).is_pending());
    assert!(waits.deadlock().is_some());
    let thief = bucket.lock_manager().lock("a").steal().blocking().unwrap();
    assert_eq!(waits.deadlock(), None);
    drop(thief);
    assert!(poll_once(last.as_mut()).is_ready());
}

#[test]
fn a_request_inside_a_lock_is_forgotten_when_it_has_been_answered() {
    let bucket = bucket();
    let (one, two) = (bucket.lock_manager(), bucket.lock_manager());
    let a = held(&one, "a");
    for _ in 0..1000 {
        let b = held(&two, "b");
        let mut waits = pin!(one.lock("b").inside(&a).into_future());
        assert!(poll_once(waits.as_mut()).is_pending());
        drop(b);
        assert!(poll_once(waits.as_mut()).is_ready());
    }
    // The old requests are no part of a cycle, whoever has their places in the queues now.
    let b = held(&two, "b");
    let mut waits = pin!(two.lock("a").inside(&b).fail_on_deadlock().into_future());
    assert!(poll_once(waits.as_mut()).is_pending());
    drop(a);
    assert!(poll_once(waits.as_mut()).is_ready());
}

#[test]
fn a_request_that_is_put_inside_a_lock_while_it_waits_can_close_a_cycle() {
    let bucket = bucket();
    let (one, two) = (bucket.lock_manager(), bucket.lock_manager());
    let (a, b) = (held(&one, "a"), held(&two, "b"));
    let mut first = pin!(one.lock("b").fail_on_deadlock().into_future());
    assert!(poll_once(first.as_mut()).is_pending());
    let mut second = pin!(two.lock("a").inside(&b).fail_on_deadlock().into_future());
    assert!(poll_once(second.as_mut()).is_pending());
    assert!(first.deadlock().is_none());
    // The first request is the older one, but putting it inside its lock closes the cycle.
    first.put_inside(a.id());
    assert!(matches!(block_on(first), Err(Error::Deadlock(_))));
    drop(a);
    drop(block_on(second).unwrap());
}
