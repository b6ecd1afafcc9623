//! What machines share outlives their brokers.

use std::time::{Duration, Instant};

use super::machines;
use crate::sandbox::{Sandbox, eventually};

/// Longer than etcd keeps what the killed broker has left: the time to live, and a second for etcd
/// to notice.
const OVER: Duration = Duration::from_secs(17);

const QUEUE: [&str; 2] = ["held db exclusive", "pending db exclusive"];

/// The token of the holder.
fn fence(machine: &Sandbox) -> String {
    let json = machine.written(&["query", "--json", "db"]);
    let first = json.lines().next().expect("somebody holds");
    let row: serde_json::Value = serde_json::from_str(first).unwrap();
    row["fencingToken"].as_str().expect("a holder has a token").to_owned()
}

/// Sees that it stays as it is until what a killed broker has left is over.
fn stays(machine: &Sandbox) {
    let killed = Instant::now();
    eventually("the leases of the killed broker are over", || {
        assert_eq!(machine.query(), QUEUE);
        killed.elapsed() > OVER
    });
}

#[test]
fn a_lock_outlives_its_broker_for_those_who_wait_on_other_machines() {
    let [ours, theirs] = machines();
    let holder = ours.hold(&["db"]);
    let mut waiter = theirs.queue(&["db"]);
    let token = fence(&theirs);
    ours.replace_broker();
    stays(&theirs);
    assert_eq!([fence(&ours), fence(&theirs)], [&*token, &*token]);
    holder.release();
    waiter.begun();
    waiter.release();
}

#[test]
fn a_command_whose_navlock_and_broker_were_killed_still_holds() {
    let [ours, theirs] = machines();
    let mut holder = ours.hold(&["db"]);
    let mut waiter = theirs.queue(&["db"]);
    holder.kill_wrapper();
    ours.kill_broker();
    // Whoever comes next on that machine starts another.
    assert_eq!(ours.code(&["run", "-n", "db", "true"]), 1);
    stays(&theirs);
    holder.kill_command();
    waiter.begun();
    waiter.release();
}

#[test]
fn who_waits_keeps_its_place_when_its_broker_is_killed() {
    let [ours, theirs] = machines();
    let holder = ours.hold(&["db"]);
    let mut waiter = theirs.queue(&["db"]);
    theirs.replace_broker();
    stays(&ours);
    let mut later = ours.queue(&["db"]);
    holder.release();
    waiter.begun();
    assert_eq!(ours.query(), QUEUE);
    waiter.release();
    later.begun();
    later.release();
}
