//! Ten thousand waiters, and clients that are away for too long.

use std::{
    future::IntoFuture,
    pin::Pin,
    task::{Context, Waker},
};

use navlock::{
    LockFuture, LockGuard, LockManager, Place,
    blocking::{block_on, block_on_timeout},
};
use rustix::process::Signal;

use crate::{
    sandbox::{Sandbox, eventually},
    worker::{self, TIMEOUT, Worker},
};

const CROWD: usize = 10_000;

/// The requests of one client, each of them in the queue.
fn crowd(locks: &LockManager) -> Vec<Pin<Box<LockFuture<'_, LockGuard, &'static str>>>> {
    let mut crowd: Vec<_> = (0..CROWD).map(|_| Box::pin(locks.lock("db").into_future())).collect();
    let mut context = Context::from_waker(Waker::noop());
    assert!(crowd.iter_mut().all(|request| request.as_mut().poll(&mut context).is_pending()));
    assert_eq!(pending(locks), CROWD);
    crowd
}

fn pending(locks: &LockManager) -> usize {
    block_on_timeout(locks.query(), TIMEOUT).unwrap().unwrap().pending.len()
}

#[test]
fn ten_thousand_requests_of_one_client_are_granted_in_their_order_also_by_the_next_broker() {
    let sandbox = Sandbox::new();
    let place = Place::at(sandbox.socket());
    let locks = worker::connect(&place).lock_manager("default");
    let other = worker::connect(&place).lock_manager("default");
    for killed in [false, true] {
        let holder = other.lock("db").blocking_timeout(TIMEOUT).unwrap();
        let crowd = crowd(&locks);
        if killed {
            sandbox.replace_broker();
            assert_eq!(pending(&other), CROWD);
        }
        assert!(!holder.is_lost());
        let mut last = holder.fencing_token();
        drop(holder);
        for request in crowd {
            let guard = block_on_timeout(request, TIMEOUT).unwrap().unwrap();
            assert!(guard.fencing_token() > last);
            last = guard.fencing_token();
        }
        assert_eq!(pending(&locks), 0);
    }
}

#[test]
fn ten_thousand_requests_that_are_dropped_are_in_nobodys_way() {
    let sandbox = Sandbox::new();
    let place = Place::at(sandbox.socket());
    let locks = worker::connect(&place).lock_manager("default");
    let other = worker::connect(&place).lock_manager("default");
    let holder = other.lock("db").blocking_timeout(TIMEOUT).unwrap();
    let crowd = crowd(&locks);
    let behind = sandbox.start(&["run", "db", "true"]);
    eventually("it waits", || pending(&other) == CROWD + 1);
    drop(crowd);
    drop(holder);
    assert!(crate::sandbox::finish(behind).status.success());
}

/// The role of a client that is away while others go on.
pub(crate) fn late(_: &[&str]) {
    let locks = worker::locks();
    let guard = locks.lock("db").blocking_timeout(TIMEOUT).unwrap();
    worker::say("held");
    worker::say(&format!("{:?}", block_on(guard.lost())));
    assert!(guard.is_lost());
    drop(guard);
    // The client can get the lost lock again.
    drop(locks.lock("db").blocking_timeout(TIMEOUT).unwrap());
    worker::say("again");
}

#[test]
fn a_client_that_does_not_come_back_in_ten_seconds_has_lost_and_is_told() {
    let sandbox = Sandbox::new();
    let mut late = Worker::start(&sandbox, "crowd::late", "");
    assert_eq!(late.read_line(), "held");
    late.stop();
    sandbox.kill_broker();
    // A request that comes now waits for the late client, as long as this may come back.
    let next = sandbox.hold(&["db"]);
    late.signal(Signal::CONT);
    assert_eq!(late.read_line(), "Disconnected");
    assert_eq!(sandbox.query()[0], "held db exclusive");
    next.release();
    assert_eq!(late.read_line(), "again");
    assert!(late.ended().success());
}
