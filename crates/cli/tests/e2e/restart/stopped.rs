//! The broker is killed while a wrapper is stopped.

use std::fs;

use rustix::process::Signal;

use crate::sandbox::{Sandbox, eventually};

#[test]
fn a_command_whose_wrapper_is_stopped_for_too_long_holds_on() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.hold(&["--on-lost", "term", "db"]);
    let mut waiter = sandbox.queue(&["db"]);
    holder.stop();
    sandbox.kill_broker();
    // The command may still be at work. It has the lock as long as its wrapper may come back. Since it
    // inherited the lock, it has it as long as it runs itself.
    assert_eq!(sandbox.answered(&["run", "-n", "db", "true"]), 1);
    assert_eq!(sandbox.query(), ["held db exclusive", "pending db exclusive"]);
    holder.signal(Signal::CONT);
    eventually("the wrapper is back", || {
        sandbox.written(&["daemon", "status", "--json"]).contains("\"orphans\":0")
    });
    holder.let_go();
    assert!(holder.ended().success());
    waiter.begun();
    waiter.release();
}

#[test]
fn a_command_keeps_its_lock_when_its_file_is_removed_while_a_broker_waits_for_others() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.hold(&["db"]);
    let other = sandbox.hold(&["other"]);
    holder.kill_wrapper();
    other.stop();
    let before = sandbox.kill_broker();
    let mut waiter = sandbox.wait_for(&["db"]);
    eventually("the next broker waits", || {
        sandbox.broker().is_some_and(|broker| broker != before)
            && sandbox.code(&["daemon", "status"]) == 0
    });
    let files = fs::read_dir(sandbox.path("sock.clients")).unwrap().map(|file| file.unwrap());
    let removed = files.map(|file| file.path()).filter(|path| path.extension().is_some());
    removed.for_each(|path| fs::remove_file(path).unwrap());
    other.signal(Signal::CONT);
    eventually("it has waited for all", || sandbox.query().len() == 3);
    let mut query = sandbox.query();
    query.sort();
    assert_eq!(query, ["held db exclusive", "held other exclusive", "pending db exclusive"]);
    holder.kill_command();
    waiter.begun();
    waiter.release();
    other.release();
}

#[test]
fn a_thief_s_lock_is_its_own_after_a_restart_too() {
    let sandbox = Sandbox::new();
    let mut victim = sandbox.hold(&["db"]);
    victim.stop();
    let thief = sandbox.hold(&["--steal", "db"]);
    // The victim hears of it when it goes on, by the first broker's last words.
    sandbox.kill_broker();
    victim.signal(Signal::CONT);
    assert_eq!(victim.ended().code(), Some(75));
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    thief.release();
}
