//! `navlock wait`.

use crate::sandbox::{Sandbox, eventually, finish};

#[test]
fn a_free_lock_is_not_waited_for_and_not_kept() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.code(&["wait", "db"]), 0);
    assert_eq!(sandbox.code(&["wait", "-n", "a", "b"]), 0);
    assert!(sandbox.query().is_empty());
}

#[test]
fn a_wait_returns_when_the_requests_before_it_are_done() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let mut second = sandbox.queue(&["db"]);
    let mut waiter = sandbox.start(&["wait", "db"]);
    eventually("it waits", || sandbox.query().len() == 3);
    holder.release();
    second.begun();
    assert!(waiter.try_wait().unwrap().is_none());
    second.release();
    assert!(finish(waiter).status.success());
}

#[test]
fn shared_it_waits_for_the_exclusive_only() {
    let sandbox = Sandbox::new();
    let reader = sandbox.hold(&["-s", "db"]);
    assert_eq!(sandbox.code(&["wait", "-s", "db"]), 0);
    assert_eq!(sandbox.code(&["wait", "-n", "db"]), 1);
    assert_eq!(sandbox.code(&["wait", "-n", "-E", "5", "db"]), 5);
    assert_eq!(sandbox.code(&["wait", "-w", "0.05", "free", "db"]), 1);
    assert_eq!(sandbox.code(&["wait"]), 64);
    assert_eq!(sandbox.query(), ["held db shared"]);
    reader.release();
}
