//! Clients that are killed together with their broker.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::{machines_with, own};
use crate::sandbox::{Holder, Sandbox, eventually, kill_at_once, write};

/// A time to live far longer than anything here may take, in seconds: no lease ends because its time is up.
const LONG: &str = "300";

/// Machines whose leases do not run out during a test.
fn machines<const N: usize>() -> [Sandbox; N] {
    machines_with(LONG)
}

/// Waits until the broker has noted a lease of each of its clients.
fn are_noted(machine: &Sandbox, count: usize) {
    eventually("leases are noted", || notes(machine) == count);
}

fn notes(machine: &Sandbox) -> usize {
    notes_of(machine, "leases")
}

/// How many brokers have noted leases of their own.
fn own_notes(machine: &Sandbox) -> usize {
    notes_of(machine, "broker")
}

fn notes_of(machine: &Sandbox, sort: &str) -> usize {
    let files = fs::read_dir(machine.path("sock.store-main.clients")).unwrap().flatten();
    files.filter(|file| file.path().extension().is_some_and(|end| end == sort)).count()
}

/// Two machines, of which the first owns this name.
fn owning(name: &str, time_to_live: &str) -> [Sandbox; 2] {
    let machines = machines_with(time_to_live);
    own(&machines[0], name);
    machines
}

/// A holder of such a name. There has been no query since: a query would have the holder written down.
fn hold_own(machine: &Sandbox, arguments: &[&str]) -> Holder {
    let mut holder = machine.wait_for(arguments);
    holder.begun();
    holder
}

/// Kills the wrapper, its command and their broker together.
fn kill_with_broker(machine: &Sandbox, holder: &mut Holder) {
    let mut all = vec![holder.wrapper()];
    all.extend(holder.command_if_any());
    all.extend(machine.broker());
    kill_at_once(&all);
    holder.kill_wrapper();
}

/// Starts a broker on this machine again.
fn restart(machine: &Sandbox) {
    assert_eq!(machine.code(&["run", "other", "true"]), 0);
}

#[test]
fn locks_of_killed_holders_are_free_when_their_machine_has_a_broker_again() {
    let [ours, theirs] = machines();
    let mut holder = ours.hold(&["db"]);
    let mut waiter = theirs.queue(&["db"]);
    kill_with_broker(&ours, &mut holder);
    restart(&ours);
    waiter.begun();
    waiter.release();
    // Nothing is left of the leases that were ended.
    eventually("the notes are gone", || notes(&ours) == 0);
}

#[test]
fn the_next_request_on_that_machine_gets_a_lock_that_was_held_without_a_lifeline() {
    let [ours] = machines();
    let mut holder = ours.hold(&["--close", "db"]);
    kill_with_broker(&ours, &mut holder);
    let mut next = ours.wait_for(&["db"]);
    next.begun();
    next.release();
}

#[test]
fn a_killed_waiter_at_the_head_of_a_queue_holds_nobody_up() {
    let [ours, theirs] = machines();
    let holder = theirs.hold(&["db"]);
    let mut dead = ours.queue(&["db"]);
    let mut next = theirs.queue(&["db"]);
    are_noted(&ours, 1);
    kill_with_broker(&ours, &mut dead);
    holder.release();
    restart(&ours);
    next.begun();
    next.release();
}

#[test]
fn living_holders_and_waiters_keep_their_locks_and_requests() {
    let [ours, theirs] = machines();
    let holder = ours.hold(&["db"]);
    let mut orphaned = ours.hold(&["orphaned"]);
    let mut dead = ours.hold(&["dead"]);
    let queued = |name| theirs.queue(&[name]);
    let [waiter, behind, mut next] = ["db", "orphaned", "dead"].map(queued);
    are_noted(&ours, 3);
    // The command of this one lives.
    orphaned.kill_wrapper();
    kill_with_broker(&ours, &mut dead);
    restart(&ours);
    next.begun();
    let states = theirs.query();
    for name in ["db", "orphaned"] {
        for state in ["held", "pending"] {
            assert!(states.contains(&format!("{state} {name} exclusive")), "{states:?}");
        }
    }
    next.release();
    holder.release();
    orphaned.kill_command();
    for mut waiter in [waiter, behind] {
        waiter.begun();
        waiter.release();
    }
}

#[test]
fn a_command_that_ended_in_an_orderly_way_leaves_no_notes() {
    let [ours] = machines();
    ours.hold(&["db"]).release();
    eventually("the notes are gone", || notes(&ours) == 0);
    assert!(ours.broker().is_some());
}

#[test]
fn a_command_that_outlives_its_navlock_leaves_no_notes() {
    let [ours] = machines();
    let mut orphaned = ours.hold(&["db"]);
    are_noted(&ours, 1);
    let broker = ours.broker();
    orphaned.kill_wrapper();
    // The broker must notice the end of a command that it knows, and not find that there is none.
    eventually("the command is known to hold", || {
        ours.written(&["daemon", "status", "--json"]).contains("\"orphans\":1")
    });
    orphaned.kill_command();
    eventually("the notes are gone", || notes(&ours) == 0);
    assert_eq!(ours.broker(), broker);
}

#[test]
fn notes_of_dead_clients_are_found_by_a_broker_that_goes_on() {
    let [ours] = machines();
    // The broker has looked for notes by now.
    let holder = ours.hold(&["db"]);
    are_noted(&ours, 1);
    // This is as left by a client that was stopped when the broker before was killed, and then was killed
    // itself.
    let of_the_dead = format!("sock.store-main.clients/{}.leases", "07".repeat(16));
    write(&ours.path(&of_the_dead), "");
    restart(&ours);
    eventually("the notes are gone", || notes(&ours) == 1);
    assert_eq!(ours.query(), ["held db exclusive"]);
    holder.release();
}

#[test]
fn a_name_that_the_machine_owned_is_free_when_the_machine_has_a_broker_again() {
    let [ours, theirs] = owning("db", LONG);
    let mut holder = hold_own(&ours, &["db"]);
    kill_with_broker(&ours, &mut holder);
    restart(&ours);
    theirs.hold(&["db"]).release();
    // Nothing is left of the leases that were ended; the running broker has noted its own.
    eventually("the notes are gone", || (notes(&ours), own_notes(&ours)) == (0, 1));
}

#[test]
fn a_name_that_the_machine_owned_and_nobody_held_is_free_when_the_machine_has_a_broker_again() {
    let [ours, theirs] = owning("db", LONG);
    let holder = ours.hold(&["held"]);
    ours.replace_broker();
    theirs.hold(&["db"]).release();
    // The living holder has gone on meanwhile.
    assert_eq!(theirs.query(), ["held held exclusive"]);
    holder.release();
}

#[test]
fn a_name_that_the_machine_owned_is_not_free_while_its_holder_may_come_back() {
    // With this margin, names are free a second and a half after the last client is given up.
    let [ours, theirs] = owning("db", &format!("{LONG}\nmargin = 0.5"));
    // Only the holder itself says what it holds.
    let holder = hold_own(&ours, &["--close", "db"]);
    holder.stop();
    ours.kill_broker();
    restart(&ours);
    // Wait longer than that, and longer than the broker takes to look again.
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(4) {
        assert_eq!(theirs.query(), ["held db exclusive"]);
    }
    holder.signal(Signal::CONT);
    let mut waiter = theirs.queue(&["db"]);
    eventually("it holds it by itself", || own_notes(&ours) == 1);
    assert_eq!(theirs.query(), ["held db exclusive", "pending db exclusive"]);
    holder.release();
    waiter.begun();
    waiter.release();
}
