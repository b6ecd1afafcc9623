//! A client that is given up is told so by every broker that it comes back to, and no other client is told
//! so.

use std::{
    fs::{self, File},
    time::{Duration, Instant},
};

#[cfg(target_os = "linux")]
use rustix::process::{Resource, Rlimit, prlimit};
use rustix::{
    fs::{FlockOperation, flock},
    process::Signal,
};

use crate::sandbox::{Holder, Sandbox, eventually};

/// Waits until so much time has passed: the test is that nothing happens meanwhile.
fn pass(time: Duration) {
    let since = Instant::now();
    eventually("time passes", || since.elapsed() >= time);
}

#[test]
fn a_client_that_was_given_up_has_lost_its_lock_at_every_later_broker() {
    let sandbox = Sandbox::new();
    // The command does not hold without its wrapper.
    let mut stopped = sandbox.hold(&["-o", "db"]);
    stopped.stop();
    sandbox.kill_broker();
    // Another command gets the lock in its place, and ends.
    assert_eq!(sandbox.code(&["run", "-w", "25", "db", "true"]), 0);
    sandbox.kill_broker();
    // The next broker finds no client to wait for.
    sandbox.written(&["daemon", "start"]);
    stopped.signal(Signal::CONT);
    assert_eq!(stopped.ended().code(), Some(75));
    assert!(sandbox.query().is_empty());
}

// Only Linux can set the limits of another process.
#[cfg(target_os = "linux")]
#[test]
fn a_holder_that_cannot_come_back_is_told_before_another_client_has_its_lock() {
    let has_ended_in_time = || {
        let sandbox = Sandbox::new();
        let mut holder = sandbox.hold(&["-o", "--on-lost", "kill", "db"]);
        let none = Rlimit { current: Some(3), maximum: Some(3) };
        prlimit(Some(holder.wrapper()), Resource::Nofile, none).unwrap();
        sandbox.kill_broker();
        let mut next = sandbox.hold(&["db"]);
        let has_ended = holder.has_ended();
        assert_eq!(holder.ended().code(), Some(75));
        next.let_go();
        assert!(next.ended().success());
        has_ended
    };
    // The holder has a second to end. On a busy machine it may once not run in that time.
    let in_time = (0..3).filter(|_| has_ended_in_time()).count();
    assert!(in_time >= 2, "both have the lock");
}

#[test]
fn a_starter_that_is_stopped_is_in_nobodys_way_and_costs_nobody_a_lock() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["-o", "db"]);
    // This test acts as a process that was stopped while it was starting a broker.
    let starting = File::create(sandbox.path("sock.spawn.lock")).unwrap();
    flock(&starting, FlockOperation::LockExclusive).unwrap();
    for _ in 0..2 {
        sandbox.kill_broker();
        assert_eq!(sandbox.code(&["run", "other", "true"]), 0);
        assert_eq!(sandbox.query(), ["held db exclusive"]);
    }
    holder.release();
}

#[test]
fn brokers_that_are_killed_one_after_the_other_cost_nobody_a_lock() {
    let sandbox = Sandbox::new();
    // Each broker waits for this client.
    let stopped = sandbox.hold(&["-o", "other"]);
    stopped.stop();
    let holder = sandbox.hold(&["-o", "db"]);
    for _ in 0..6 {
        sandbox.replace_broker();
        // This is less than a broker waits. Together the pauses are more than a client waits before it gives
        // up.
        pass(Duration::from_secs(2));
    }
    stopped.signal(Signal::CONT);
    eventually("both hold", || sandbox.query().len() == 2);
    [stopped, holder].into_iter().for_each(Holder::release);
}

#[test]
fn a_command_holds_on_whose_wrapper_is_killed_after_it_came_back_and_before_others_have() {
    let sandbox = Sandbox::new();
    let stopped = sandbox.hold(&["-o", "other"]);
    let mut holder = sandbox.hold(&["db"]);
    stopped.stop();
    sandbox.replace_broker();
    // The holder has claimed what it holds, and the claim is not settled yet. Nothing shows that moment.
    pass(Duration::from_secs(1));
    holder.kill_wrapper();
    stopped.signal(Signal::CONT);
    assert_eq!(sandbox.answered(&["run", "-n", "db", "true"]), 1);
    assert_eq!(sandbox.query(), ["held db exclusive", "held other exclusive"]);
    holder.kill_command();
    stopped.release();
}

#[test]
fn a_client_that_is_given_up_leaves_no_file() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.hold(&["-o", "db"]);
    let clients = sandbox.path("sock.clients");
    let file = fs::read_dir(&clients).unwrap().next().unwrap().unwrap().path();
    holder.kill_wrapper();
    assert_eq!(sandbox.code(&["run", "-w", "20", "db", "true"]), 0);
    eventually("its file is gone", || !file.exists());
    holder.kill_command();
}
