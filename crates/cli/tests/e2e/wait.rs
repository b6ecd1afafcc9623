//! `navlock wait`.

use std::{
    fs::File,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    process::{Signal, kill_process},
};

use crate::sandbox::{Sandbox, eventually, finish};

/// Less than a client without bounds waits for a broker, and much more than it may take with them.
const BOUND: Duration = Duration::from_secs(8);

impl Sandbox {
    /// The code with which all commands end that do not want to wait, or not for long.
    fn bounded_codes(&self) -> Vec<i32> {
        let commands: [&[&str]; 4] = [
            &["run", "-n", "db", "true"],
            &["run", "-w", "0.1", "db", "true"],
            &["run", "-w", "1", "db", "true"],
            &["wait", "-n", "db"],
        ];
        // All at once: what they must not wait for may come to an end.
        let code = |command: &[&str]| {
            let began = Instant::now();
            let code = self.code(command);
            let took = began.elapsed();
            assert!(took < BOUND, "{command:?} took {took:?}");
            code
        };
        thread::scope(|scope| {
            let all = commands.map(|command| scope.spawn(move || code(command)));
            all.map(|one| one.join().unwrap()).to_vec()
        })
    }
}

#[test]
fn who_does_not_want_to_wait_does_not_wait_for_a_broker_that_is_stopped() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let broker = sandbox.broker().unwrap();
    kill_process(broker, Signal::STOP).unwrap();
    assert_eq!(sandbox.bounded_codes(), [69; 4]);
    kill_process(broker, Signal::CONT).unwrap();
    assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 1);
    holder.release();
}

#[test]
fn who_does_not_want_to_wait_does_not_wait_for_a_broker_that_does_not_come_to_listen() {
    let sandbox = Sandbox::new();
    // We are a broker that was stopped while it was starting.
    let starting = File::create(sandbox.path("sock.broker.lock")).unwrap();
    flock(&starting, FlockOperation::LockExclusive).unwrap();
    assert_eq!(sandbox.bounded_codes(), [69; 4]);
    drop(starting);
    assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0);
}

#[test]
fn who_does_not_want_to_wait_is_told_when_a_broker_grants_nothing_yet() {
    let sandbox = Sandbox::new();
    let stopped = sandbox.hold(&["-o", "other"]);
    stopped.stop();
    sandbox.kill_broker();
    // It waits for who was stopped, and cannot know what that holds.
    assert_eq!(sandbox.bounded_codes(), [1; 4]);
    let said = sandbox.output(&["run", "-n", "-E", "7", "db", "true"]);
    assert_eq!(said.status.code(), Some(7));
    assert!(String::from_utf8_lossy(&said.stderr).contains("takes over"), "{said:?}");
    stopped.signal(Signal::CONT);
    assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0);
    stopped.release();
}

#[test]
fn a_free_lock_is_not_waited_for_and_not_kept() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.code(&["wait", "db"]), 0);
    assert_eq!(sandbox.code(&["wait", "-n", "a", "b"]), 0);
    assert!(sandbox.query().is_empty());
}

#[test]
fn it_returns_when_those_before_it_are_done() {
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
