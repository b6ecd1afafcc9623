//! Who is given up: that it is told, by whatever broker it comes back to, and that nobody else is.

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

/// Waits until so much time has passed: what is tried is that nothing happens in it.
fn pass(time: Duration) {
    let since = Instant::now();
    eventually("time passes", || since.elapsed() >= time);
}

#[test]
fn who_was_given_up_has_lost_its_lock_whichever_broker_it_comes_back_to() {
    let sandbox = Sandbox::new();
    // Its command does not hold by itself.
    let mut stopped = sandbox.hold(&["-o", "db"]);
    stopped.stop();
    sandbox.kill_broker();
    // Somebody has the lock in its place, and is done with it.
    assert_eq!(sandbox.code(&["run", "-w", "25", "db", "true"]), 0);
    sandbox.kill_broker();
    // The next one finds nobody to wait for.
    sandbox.written(&["daemon", "start"]);
    stopped.signal(Signal::CONT);
    assert_eq!(stopped.ended().code(), Some(75));
    assert!(sandbox.query().is_empty());
}

// Linux alone sets the limits of another process.
#[cfg(target_os = "linux")]
#[test]
fn who_runs_and_cannot_come_back_is_told_before_anybody_else_has_its_lock() {
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
    // It has a second for it, and may once not be let run in that on a busy machine.
    let in_time = (0..3).filter(|_| has_ended_in_time()).count();
    assert!(in_time >= 2, "both have the lock");
}

#[test]
fn a_starter_that_is_stopped_is_in_nobodys_way_and_costs_nobody_a_lock() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["-o", "db"]);
    // We are a process that was stopped while it was starting a broker.
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
    // Each of them waits for this one.
    let stopped = sandbox.hold(&["-o", "other"]);
    stopped.stop();
    let holder = sandbox.hold(&["-o", "db"]);
    for _ in 0..6 {
        sandbox.replace_broker();
        // Less than it waits, and all together more than a client has before it gives up waiting.
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
    // It has said what it holds, which is not settled yet. Nothing shows that.
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
