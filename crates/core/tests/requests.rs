//! A request before and after its future is polled, and the end of one of several locks.

#![allow(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

use std::{
    cell::Cell,
    future::{Future, IntoFuture, poll_fn},
    pin::pin,
    task::{Context, Poll, Waker},
};

use navlock_core::{
    Error, FailedName, LockManager, LockOptions, Lost, Mode, UserAgent, blocking::block_on,
};

fn two_agents() -> (LockManager, LockManager) {
    let locks = UserAgent::new().lock_manager("app");
    (locks.clone(), locks.bucket().lock_manager())
}

#[test]
fn a_request_tells_what_it_waits_for_while_it_does() {
    let (locks, other) = two_agents();
    let held = other.lock("db").blocking().unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let options = LockOptions { mode: Mode::Shared, ..LockOptions::default() };
    let mut request = pin!(locks.lock_with("db", options).into_future());
    assert_eq!(request.pending(), None);
    assert!(request.as_mut().poll(&mut context).is_pending());
    assert_eq!(
        request.pending().map(|(name, mode)| (name.as_str(), mode)),
        Some((Some("db"), Mode::Shared))
    );
    drop(held);
    assert!(request.as_mut().poll(&mut context).is_ready());
    assert_eq!(request.pending(), None);
}

#[test]
fn a_request_that_is_detached_keeps_its_place_and_needs_no_handle() {
    let (locks, other) = two_agents();
    let held = other.lock("db").blocking().unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut request = locks.lock("db").into_owned();
    assert!(pin!(&mut request).poll(&mut context).is_pending());
    let mut detached = request.detach().expect("it is pending");
    drop(locks);
    let mut last = pin!(other.lock("db").into_future());
    assert!(last.as_mut().poll(&mut context).is_pending());
    drop(held);
    assert!(last.as_mut().poll(&mut context).is_pending());
    let Poll::Ready(Ok(granted)) = pin!(&mut detached).poll(&mut context) else {
        panic!("it is not granted")
    };
    drop(granted);
    assert!(last.as_mut().poll(&mut context).is_ready());
    // A request that has ended or has not begun is not in a queue.
    assert!(detached.detach().is_none());
    assert!(other.lock("db").into_owned().detach().is_none());
}

#[test]
fn one_of_several_locks_that_is_lost_ends_the_callback_before_its_next_step_and_is_named() {
    let (locks, other) = two_agents();
    let mut context = Context::from_waker(Waker::noop());
    let steps = Cell::new(0);
    let mut request = pin!(locks.request_all(["a", "b"], async |_| {
        poll_fn(|_| {
            steps.set(steps.get() + 1);
            Poll::<()>::Pending
        })
        .await;
    }));
    assert!(request.as_mut().poll(&mut context).is_pending());
    let _thief = other.lock("b").steal().blocking().unwrap();
    let Poll::Ready(Err(lost)) = request.as_mut().poll(&mut context) else {
        panic!("it goes on although a lock was stolen")
    };
    assert_eq!(steps.get(), 1);
    assert_eq!(lost.error, Error::Lost(Lost::Stolen));
    assert_eq!(lost.at, Some(FailedName::Name("b".try_into().unwrap())));
    assert!(other.lock("a").if_available().blocking().unwrap().is_some());
}

#[test]
fn one_of_several_locks_that_is_lost_in_the_last_step_of_the_callback_is_told_too() {
    let (locks, other) = two_agents();
    let mut thief = None;
    let ended = block_on(locks.request_all(["a", "b"], async |_| {
        thief = Some(other.lock("a").steal().await);
    }));
    assert_eq!(ended.map_err(Error::from), Err(Error::Lost(Lost::Stolen)));
}
