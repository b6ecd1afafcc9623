//! How a connection begins, and what follows when it ends.

use std::{
    fs,
    future::Future,
    path,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use navlock_broker::{BrokerReach, ConnectOptions, Place, daemon};
use navlock_core::{Error, LockManager, Lost, UserAgent, blocking::block_on};
use navlock_platform::socket;

use crate::daemon::{Daemon, eventually, queue, soon};

#[test]
fn a_client_back_at_a_daemon_that_did_not_wait_has_lost_its_locks_and_waits_anew() {
    let mut daemon = Daemon::start();
    let (a, b) = (daemon.locks(), daemon.locks());
    let held = soon(a.lock("db")).unwrap();
    let mut waiting = pin!(b.lock("db").into_future());
    queue(&b, "db", waiting.as_mut());
    daemon.restart();
    assert_eq!(soon(held.lost()), Lost::Disconnected);
    let next = soon(waiting).unwrap();
    assert!(!next.is_lost());
    // The client that has lost the lock can have it again.
    drop(next);
    drop(soon(a.lock("db")).unwrap());
}

#[test]
fn without_a_daemon_who_waits_is_told_and_who_holds_holds() {
    let mut daemon = Daemon::start();
    let (a, b) = (daemon.locks(), daemon.locks());
    let held = soon(a.lock("db")).unwrap();
    let mut waiting = pin!(b.lock("db").into_future());
    queue(&b, "db", waiting.as_mut());
    daemon.stop();
    for error in [
        soon(waiting).unwrap_err(),
        soon(a.lock("other")).unwrap_err(),
        soon(a.query()).unwrap_err(),
    ] {
        assert!(
            matches!(&error, Error::Unreachable(why) if why.message().contains("sock")),
            "{error}"
        );
    }
    // Nobody can have been granted it.
    assert_eq!(held.is_lost().then(|| soon(held.lost())), None);
    // A daemon that gives a client up removes its file before it grants anything.
    let clients = daemon.place().socket().with_extension("clients");
    let file = fs::read_dir(clients).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(file).unwrap();
    assert!(held.is_lost());
    assert_eq!(soon(held.lost()), Lost::Disconnected);
}

#[test]
fn a_daemon_that_ends_just_then_is_asked_again() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path().join("sock"));
    let (at, listener) = (place.clone(), socket::Listener::bind(place.socket()).unwrap());
    let daemon = thread::spawn(move || {
        // Hangs up on three connections before it has welcomed the client.
        for _ in 0..3 {
            drop(listener.accept().unwrap());
        }
        let mut options = daemon::Options::default();
        (options.idle, options.socket) = (Some(Duration::from_secs(3)), Some(Arc::new(listener)));
        let user_agent = |first| Ok(daemon::user_agent(first));
        daemon::run(&at, user_agent, &options, || ()).unwrap();
    });
    let options = ConnectOptions::default().place(place).program("/nonexistent");
    let reach = soon(BrokerReach::connect(options)).unwrap();
    let locks = UserAgent::with_reach(reach).lock_manager("app");
    drop(soon(locks.lock("db")).unwrap());
    drop(locks);
    daemon.join().unwrap();
}

#[test]
fn a_holder_that_asks_a_connection_without_a_thread_is_told_of_a_theft() {
    let daemon = Daemon::start();
    let locks = lock_manager_without_thread(&daemon);
    let held = locks.lock("db").blocking().unwrap();
    assert!(!held.is_lost());
    let thief = daemon.locks();
    let stolen = soon(thief.lock("db").steal()).unwrap();
    eventually("it is told", || held.is_lost());
    drop(stolen);
}

#[test]
fn a_holder_that_asks_a_connection_without_a_thread_is_told_that_a_daemon_gave_it_up() {
    let mut daemon = Daemon::start();
    let locks = lock_manager_without_thread(&daemon);
    let held = locks.lock("db").blocking().unwrap();
    daemon.stop();
    assert!(!held.is_lost());
    // A daemon that gives a client up removes its file before it grants anything.
    let clients = daemon.place().socket().with_extension("clients");
    let file = fs::read_dir(clients).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(file).unwrap();
    // The thread that has been started by now may be about to end the lock.
    eventually("it is told", || held.is_lost());
}

/// A lock manager with a connection that no thread reads between two calls.
fn lock_manager_without_thread(daemon: &Daemon) -> LockManager {
    let options = ConnectOptions::default().place(daemon.place()).program("/nonexistent");
    let reach = BrokerReach::connect_blocking(options).unwrap();
    UserAgent::with_reach(reach).lock_manager("app")
}

#[test]
fn connecting_works_when_polled_by_hand() {
    let daemon = Daemon::start();
    let place = daemon.place();
    let mut connecting = pin!(BrokerReach::connect(ConnectOptions::default().place(place)));
    let first = connecting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    if let Poll::Ready(connected) = first {
        connected.unwrap();
    } else {
        block_on(connecting).unwrap();
    }
}

#[test]
fn without_a_daemon_and_a_program_to_start_it_the_error_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let place = Place::at(directory.path().join("sock"));
    let options = ConnectOptions::default().place(place.clone()).program("/nonexistent/navlock");
    let error = soon(BrokerReach::connect(options)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot reach the broker at {}: it is not running, and there is no program {} to start \
             it with; install navlock or set NAVLOCK_BIN to its path",
            place.socket().display(),
            // On a system with drives, a path without a drive is relative to the current one.
            path::absolute("/nonexistent/navlock").unwrap().display()
        )
    );
}
