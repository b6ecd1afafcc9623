//! Rules 14 to 16: steal.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
};

use navlock_core::{Error, Lost, UserAgent};

use super::{
    TestWaker, Waiting, agent, assert_nothing_is_left, exclusive, settle, shared, snapshot, soon,
};

/// Rule 14.
pub fn all_holders_lose_and_the_thief_goes_first(user_agent: &UserAgent) {
    let (a, b, thief) = (agent(user_agent), agent(user_agent), agent(user_agent));
    let victims = [shared(&a, "db"), shared(&b, "db")];
    let elsewhere = exclusive(&a, "other");
    let mut first = Waiting::new(&a, a.lock("db"));
    let mut second = Waiting::new(&b, b.lock("db"));

    let stolen = soon(thief.lock("db").steal()).unwrap();
    for victim in &victims {
        assert_eq!(soon(victim.lost()), Lost::Stolen);
        assert!(victim.is_lost());
    }
    assert!(!stolen.is_lost() && !elsewhere.is_lost());
    assert!(first.still(&a) && second.still(&b));

    drop(stolen);
    let first = first.granted();
    assert!(second.still(&b));
    drop(first);
    drop(second.granted());
}

/// Rule 15.
pub fn a_victim_that_ends_later_changes_nothing(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let victim = exclusive(&locks, "db");
    let thief = soon(locks.lock("db").steal()).unwrap();
    let mut waiter = Waiting::new(&locks, locks.lock("db"));

    drop(victim);
    assert!(waiter.still(&locks));
    assert!(!thief.is_lost());
    drop(thief);
    drop(waiter.granted());
}

/// Rule 15.
pub fn the_last_of_two_thieves_wins(user_agent: &UserAgent) {
    let (a, b) = (agent(user_agent), agent(user_agent));
    let first = soon(a.lock("db").steal()).unwrap();
    let second = soon(b.lock("db").steal()).unwrap();
    assert_eq!(soon(first.lost()), Lost::Stolen);
    assert!(!second.is_lost());
    drop(first);
    assert_eq!(snapshot(&a).0.len(), 1);
}

/// Rule 14, for a callback: the request fails, and the callback's work goes no further.
pub fn a_victim_whose_callback_runs_is_dropped_where_it_waits(user_agent: &UserAgent) {
    let (locks, thief) = (agent(user_agent), agent(user_agent));
    let waits = AtomicBool::new(false);
    let mut went_on = false;
    thread::scope(|scope| {
        scope.spawn(|| {
            while !waits.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            drop(soon(thief.lock("db").steal()).unwrap());
        });
        let result = soon(locks.request("db", async |_| {
            // From the second poll on, only the theft wakes the callback.
            let mut polls = 0;
            poll_fn(|context| {
                polls += 1;
                match polls {
                    1 => context.waker().wake_by_ref(),
                    _ => waits.store(true, Ordering::SeqCst),
                }
                Poll::<()>::Pending
            })
            .await;
            went_on = true;
        }));
        let error = result.unwrap_err();
        assert_eq!(error, Error::Lost(Lost::Stolen));
        assert_eq!(error.dom_exception_name(), "AbortError");
    });
    assert!(!went_on);
    assert_nothing_is_left(&locks);
}

/// Rule 14: the request fails because of the theft, even if its callback ends in the same poll.
pub fn a_victim_that_ends_as_it_is_robbed_has_lost(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let result = soon(locks.request("db", async |_| {
        drop(soon(locks.lock("db").steal()).unwrap());
    }));
    assert_eq!(result, Err(Error::Lost(Lost::Stolen)));
    assert_nothing_is_left(&locks);
}

/// Rule 14: once the lock is stolen, the callback is not polled, whatever wakes the request. It
/// does not even begin.
pub fn a_victim_is_not_polled_once_it_is_robbed(user_agent: &UserAgent) {
    let (locks, thief) = (agent(user_agent), agent(user_agent));
    let polls = Cell::new(0);
    let mut request = Box::pin(locks.request("db", async |_| {
        let pending = poll_fn(|_| {
            polls.set(polls.get() + 1);
            Poll::<()>::Pending
        });
        pending.await;
    }));
    while polls.get() == 0 {
        assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        settle(&locks);
    }
    let before = polls.get();
    let stolen = soon(thief.lock("db").steal()).unwrap();
    settle(&locks);
    assert_eq!(soon(request), Err(Error::Lost(Lost::Stolen)));
    assert_eq!(polls.get(), before);
    drop(stolen);

    // The theft comes between the grant and the first poll of the future that the callback returns.
    let began = &Cell::new(false);
    let result = soon(locks.lock("db").run(|_| {
        drop(soon(thief.lock("db").steal()).unwrap());
        settle(&locks);
        async move { began.set(true) }
    }));
    assert_eq!(result, Err(Error::Lost(Lost::Stolen)));
    assert!(!began.get());
    assert_nothing_is_left(&locks);
}

/// Rule 16: the request is granted, stolen, and polled only then.
pub fn a_victim_that_was_not_told_of_its_grant_never_runs(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let holder = exclusive(&locks, "db");
    let mut ran = false;
    {
        let mut victim = pin!(locks.request("db", async |_| ran = true));
        assert!(victim.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(holder);
        settle(&locks);
        let thief = soon(locks.lock("db").steal()).unwrap();
        assert_eq!(soon(victim), Err(Error::Lost(Lost::Stolen)));
        assert!(!thief.is_lost());
    }
    assert!(!ran);

    // A request for a guard does not get one either.
    let holder = exclusive(&locks, "db");
    let victim = Waiting::new(&locks, locks.lock("db"));
    drop(holder);
    settle(&locks);
    let thief = soon(locks.lock("db").steal()).unwrap();
    assert_eq!(victim.failed(), Error::Lost(Lost::Stolen));
    drop(thief);
    assert_nothing_is_left(&locks);
}

/// Several futures watch one guard, and all of them are woken.
pub fn everybody_who_watches_a_lock_is_told_of_its_loss(user_agent: &UserAgent) {
    let locks = agent(user_agent);
    let victim = exclusive(&locks, "db");
    let mut watchers: Vec<_> = (0..3).map(|_| Box::pin(victim.lost())).collect();
    let test_wakers: Vec<_> = (0..3).map(|_| Arc::new(TestWaker::default())).collect();
    for (watcher, test_waker) in watchers.iter_mut().zip(&test_wakers) {
        let waker = Waker::from(Arc::clone(test_waker));
        assert!(watcher.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }

    drop(soon(agent(user_agent).lock("db").steal()).unwrap());
    for (watcher, test_waker) in watchers.into_iter().zip(test_wakers) {
        assert!(test_waker.is_woken_soon(), "a watcher was not woken");
        assert_eq!(soon(watcher), Lost::Stolen);
    }
}

/// A guard that is held for long and is watched by many futures for a short time remembers none of
/// them.
pub fn a_future_that_watches_no_more_is_forgotten(user_agent: &UserAgent) {
    let guard = exclusive(&agent(user_agent), "db");
    let test_waker = Arc::new(TestWaker::default());
    for _ in 0..10 {
        let waker = Waker::from(Arc::clone(&test_waker));
        let mut watcher = Box::pin(guard.lost());
        assert!(watcher.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(watcher.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(watcher.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert_eq!(Arc::strong_count(&test_waker), 1);
}
