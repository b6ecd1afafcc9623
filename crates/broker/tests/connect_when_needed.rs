//! A connection that is made when something is asked for, and what is asked for before it is there.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::{
    future::{Future, IntoFuture},
    path::absolute,
    sync::Arc,
    task::{Context, Waker},
    thread,
    time::Duration,
};

use navlock_broker::{BrokerReach, ConnectOptions, Place, daemon};
use navlock_core::{Error, UserAgent, blocking::block_on_timeout};
use navlock_platform::socket::Listener;

const LONG: Duration = Duration::from_secs(20);

fn soon<F: Future>(future: F) -> F::Output {
    block_on_timeout(future, LONG).expect("in good time")
}

fn user_agent(place: &Place) -> UserAgent {
    let options = ConnectOptions::default().place(place.clone()).program("/nonexistent/navlock");
    UserAgent::with_reach(BrokerReach::connect_when_needed(options).unwrap())
}

/// Runs a daemon at this place, where this listens already, until nobody is connected any more.
fn run(place: Place, listener: Listener) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut options = daemon::Options::default();
        (options.idle, options.socket) = (Some(Duration::from_secs(3)), Some(Arc::new(listener)));
        let user_agent = |first| Ok(daemon::user_agent(first));
        daemon::run(&place, user_agent, &options, || ()).unwrap();
    })
}

#[test]
fn requests_made_before_a_connection_are_sent_in_the_same_order() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path().join("sock"));
    // Nobody is welcomed yet.
    let listener = Listener::bind(place.socket()).unwrap();
    let locks = user_agent(&place).lock_manager("app");
    let mut context = Context::from_waker(Waker::noop());
    // Its place in the table is another's by and by.
    let mut left = Box::pin(locks.lock("db").into_future());
    let mut first = Box::pin(locks.lock("db").into_future());
    let mut never = Box::pin(locks.lock("db").if_available().into_future());
    assert!(left.as_mut().poll(&mut context).is_pending());
    assert!(first.as_mut().poll(&mut context).is_pending());
    drop(left);
    assert!(never.as_mut().poll(&mut context).is_pending());
    let mut second = Box::pin(locks.lock("db").shared().into_future());
    let mut early = Box::pin(locks.query());
    assert!(early.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut context).is_pending());

    let daemon = run(place, listener);
    let held = soon(first).unwrap();
    assert!(soon(never).unwrap().is_none());
    assert!(second.as_mut().poll(&mut context).is_pending());
    let snapshot = soon(early).unwrap();
    assert_eq!((snapshot.held.len(), snapshot.pending.len()), (1, 0));
    let snapshot = soon(locks.query()).unwrap();
    assert_eq!((snapshot.held.len(), snapshot.pending.len()), (1, 1));
    drop(held);
    drop(soon(second).unwrap());
    drop(locks);
    daemon.join().unwrap();
}

#[test]
fn nothing_is_done_before_something_is_asked_for_and_a_failure_is_not_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path().join("sock"));
    let locks = user_agent(&place).lock_manager("app");
    assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none());
    let failed = soon(locks.lock("db").into_future());
    // Where there are drives, a path without one is meant from here.
    let program = absolute("/nonexistent/navlock").unwrap().display().to_string();
    assert!(matches!(failed, Err(Error::Unreachable(why)) if why.message().contains(&program)));
    assert!(matches!(soon(locks.query()), Err(Error::Unreachable(_))));

    let listener = Listener::bind(place.socket()).unwrap();
    let daemon = run(place, listener);
    drop(soon(locks.lock("db").into_future()).unwrap());
    drop(locks);
    daemon.join().unwrap();
}
