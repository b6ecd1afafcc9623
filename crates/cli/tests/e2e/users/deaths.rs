//! What becomes of locks when the broker or a `navlock` dies.

use std::{os::unix::net::UnixListener, time::Duration};

use super::*;
use crate::system::{Signal, kill_process, lives};

#[test]
fn nothing_is_lost_when_the_broker_is_killed_while_several_users_hold_and_wait() {
    let Some(mut machine) = Machine::new() else { return };
    let before = machine.fence(BEA, "token");
    let mut ada = machine.hold(ADA, &["db"]);
    let mut bea = machine.hold(BEA, &["other"]);
    let root = machine.hold(ROOT, &["third"]);
    let mut first = machine.queue(BEA, &["db"]);
    let mut second = machine.queue(ROOT, &["db"]);
    let mut third = machine.queue(ADA, &["db"]);
    for _ in 0..3 {
        machine.kill_broker();
        machine.output(ADA, &["run", "-n", "db", "true"]).assert_says(69, "no system broker runs");
        machine.start_broker();
        // Who comes now comes behind those who have waited, and nobody gets what is held.
        for user in [ADA, BEA, ROOT] {
            for name in ["db", "other", "third"] {
                assert_eq!(machine.code(user, &["run", "-w", "1", name, "true"]), 1, "{name}");
            }
        }
        eventually("all have come back", || machine.pending() == 3);
        assert!(
            ![&mut ada, &mut bea, &mut first, &mut second, &mut third]
                .into_iter()
                .any(Holder::has_ended)
        );
    }
    ada.release();
    first.begun();
    first.release();
    second.begun();
    second.release();
    third.begun();
    third.release();
    bea.release();
    root.release();
    assert!(machine.fence(ADA, "token") > before);
}

/// Longer than a client waits for a broker that clients can start.
const OUTAGE: Duration = Duration::from_secs(11);

#[test]
fn who_waits_in_a_queue_waits_for_as_long_as_the_machine_has_no_broker() {
    let Some(mut machine) = Machine::new() else { return };
    let holder = machine.hold(ADA, &["db"]);
    let mut first = machine.queue(BEA, &["db"]);
    let mut second = machine.queue(ADA, &["db"]);
    let impatient = machine.start(ROOT, &["run", "-w", "10", "db", "true"]);
    eventually("it waits", || machine.pending() == 3);
    machine.kill_broker();
    // The time is what is tested.
    thread::sleep(OUTAGE);
    let ended = finish(impatient);
    assert!(!ended.status.success(), "{ended:?}");
    assert!(!first.has_ended() && !second.has_ended());
    machine.output(ADA, &["query", "-a"]).assert_says(69, "no system broker runs");
    machine.start_broker();
    eventually("both have come back", || machine.pending() == 2);
    holder.release();
    first.begun();
    first.release();
    second.begun();
    second.release();
}

#[test]
fn who_waits_in_a_queue_waits_while_systemd_listens_for_a_broker_that_does_not_start() {
    let Some(mut machine) = Machine::new() else { return };
    let holder = machine.hold(ADA, &["db"]);
    let mut waiter = machine.queue(BEA, &["db"]);
    machine.kill_broker();
    fs::remove_file(machine.socket()).unwrap();
    let listens = UnixListener::bind(machine.socket()).unwrap();
    chown(machine.socket(), Some(BROKER.uid), Some(GROUP)).unwrap();
    fs::set_permissions(machine.socket(), fs::Permissions::from_mode(0o660)).unwrap();
    // The time is what is tested: a client has given up a broker that is silent.
    thread::sleep(2 * OUTAGE);
    assert!(!waiter.has_ended());
    fs::remove_file(machine.socket()).unwrap();
    drop(listens);
    machine.start_broker();
    holder.release();
    waiter.begun();
    waiter.release();
}

#[test]
fn a_lock_is_released_while_no_broker_runs_and_is_free_for_the_next_one() {
    let Some(mut machine) = Machine::new() else { return };
    let holder = machine.hold(ADA, &["db"]);
    let mut waiter = machine.queue(BEA, &["db"]);
    machine.kill_broker();
    holder.release();
    machine.start_broker();
    waiter.begun();
    waiter.release();
}

#[test]
fn who_dies_while_no_broker_runs_holds_and_waits_no_more() {
    let Some(mut machine) = Machine::new() else { return };
    let mut holder = machine.hold(ADA, &["--close", "db"]);
    let mut dead = machine.queue(ROOT, &["db"]);
    let mut waiter = machine.queue(BEA, &["db"]);
    machine.kill_broker();
    holder.kill_wrapper();
    dead.kill_wrapper();
    machine.start_broker();
    waiter.begun();
    waiter.release();
}

#[test]
fn a_command_whose_navlock_was_killed_keeps_its_lock_from_other_users() {
    let Some(mut machine) = Machine::new() else { return };
    for is_broker_killed in [false, true] {
        let mut holder = machine.hold(ADA, &["db"]);
        let command = holder.command();
        holder.kill_wrapper();
        if is_broker_killed {
            machine.kill_broker();
            machine.start_broker();
        }
        assert_eq!(machine.code(BEA, &["run", "-w", "1", "db", "true"]), 1, "{is_broker_killed}");
        assert_eq!(machine.code(ADA, &["run", "-n", "db", "true"]), 1, "{is_broker_killed}");
        assert!(lives(command));
        kill_process(command, Signal::KILL).unwrap();
        assert_eq!(machine.code(BEA, &["run", "-w", "60", "db", "true"]), 0);
    }
}

#[test]
fn a_user_dies_and_comes_back_again_and_again_and_another_ones_lock_stays() {
    let Some(mut machine) = Machine::new() else { return };
    let mut holder = machine.hold(ADA, &["db"]);
    for round in 0..6 {
        let mut crowd: Vec<_> = (0..8).map(|_| machine.wait_for(BEA, &["db"])).collect();
        eventually("some wait", || machine.pending() > 0);
        if round % 2 == 1 {
            machine.kill_broker();
        }
        crowd.iter_mut().for_each(Holder::kill_wrapper);
        if round % 2 == 1 {
            machine.start_broker();
        }
        eventually("none of them waits", || machine.pending() == 0);
        assert!(!holder.has_ended());
    }
    holder.release();
    assert_eq!(machine.code(BEA, &["run", "-w", "60", "db", "true"]), 0);
}
