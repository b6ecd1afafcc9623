//! What one machine has can be seen, waited for and taken by another.

use serde_json::Value;

use super::machines;
use crate::sandbox::{Sandbox, eventually};

/// What `query --json` says on a machine.
fn rows(machine: &Sandbox) -> Vec<Value> {
    let json = machine.written(&["query", "--json"]);
    json.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_lock_is_held_by_one_of_all_machines_and_goes_to_the_next_in_turn() {
    let [ours, theirs] = machines();
    let holder = ours.hold(&["db"]);
    assert_eq!(theirs.code(&["run", "-n", "db", "true"]), 1);
    let mut first = theirs.queue(&["db"]);
    let mut second = ours.queue(&["db"]);
    let queue = ["held db exclusive", "pending db exclusive", "pending db exclusive"];
    assert_eq!([ours.query(), theirs.query()], [queue, queue]);
    holder.release();
    first.begun();
    assert_eq!(ours.query(), ["held db exclusive", "pending db exclusive"]);
    first.release();
    second.begun();
    second.release();
    eventually("it is released", || theirs.query().is_empty());
}

#[test]
fn a_shared_lock_is_shared_with_all_machines() {
    let [ours, theirs] = machines();
    let holders = [ours.hold(&["-s", "db"]), theirs.hold(&["-s", "db"])];
    assert_eq!(theirs.code(&["run", "-n", "db", "true"]), 1);
    holders.into_iter().for_each(crate::sandbox::Holder::release);
    assert_eq!(theirs.code(&["run", "-w", "30", "db", "true"]), 0);
}

#[test]
fn a_holder_on_another_machine_is_seen_with_process_host_and_reason() {
    let [ours, theirs] = machines();
    let holder = ours.hold(&["--why", "nightly", "db"]);
    let _waiter = ours.queue(&["db"]);
    // A holder knows only once it holds which process its command is.
    let pid = holder.command().as_raw_nonzero().get();
    eventually("the command is seen", || rows(&theirs)[0]["pid"] == pid);
    let seen = rows(&theirs);
    let of = |key: &str| seen.iter().map(|row| row[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("state"), ["held", "pending"]);
    assert_eq!(seen[0]["command"], "sh");
    assert_eq!(seen[1]["command"], "navlock run sh");
    assert_eq!(of("why"), ["nightly".into(), Value::Null]);
    let host = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    assert_eq!(of("host"), [&*host, &*host]);
    assert!(of("user").iter().chain(&of("clientId")).all(Value::is_string), "{seen:?}");
    assert!(seen[0]["fencingToken"].is_string());
    let holds = format!("held by sh[{}]", holder.command().as_raw_nonzero());
    // The waiter says this line only if it learns it before the line is due.
    eventually("who waits is told for whom", || {
        let waits = theirs.output(&["run", "-w", "1.5", "db", "true"]);
        let said = waits.stderr;
        said.contains(&holds) && said.contains("(nightly); 1 ahead")
    });
}

#[test]
fn a_killed_holder_is_followed_by_whoever_waits_on_another_machine() {
    let [ours, theirs] = machines();
    // One holder whose command holds only with it, and one whose command is left alone with the lock.
    let mut closed = ours.hold(&["--close", "db"]);
    let mut next = theirs.queue(&["db"]);
    closed.kill_wrapper();
    next.begun();
    let mut waiter = ours.queue(&["db"]);
    next.kill_wrapper();
    assert_eq!(theirs.code(&["run", "-n", "db", "true"]), 1);
    next.kill_command();
    waiter.begun();
    waiter.release();
}

#[test]
fn a_killed_waiter_is_in_nobodys_way() {
    let [ours, theirs] = machines();
    let holder = ours.hold(&["db"]);
    let mut killed = theirs.queue(&["db"]);
    let mut next = ours.queue(&["db"]);
    killed.kill_wrapper();
    eventually("it has left the queue", || ours.query().len() == 2);
    holder.release();
    next.begun();
    next.release();
}

#[test]
fn a_lock_can_be_stolen_from_another_machine() {
    let [ours, theirs] = machines();
    let mut victim = ours.hold(&["db"]);
    let thief = theirs.hold(&["--steal", "db"]);
    assert_eq!(victim.ended().code(), Some(75));
    assert_eq!(ours.query(), ["held db exclusive"]);
    thief.release();
}

#[test]
fn fencing_tokens_grow_from_machine_to_machine() {
    let machines: [Sandbox; 2] = machines();
    let mut last: u64 = 0;
    for machine in machines.iter().cycle().take(4) {
        let output = machine.written(&["run", "db", "sh", "-c", "echo $NAVLOCK_FENCE"]);
        let fence = output.trim().parse().unwrap();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
    }
}

#[test]
fn a_broker_without_clients_leaves_nothing_and_the_next_goes_on() {
    let [ours, theirs] = machines();
    ours.written(&["run", "db", "true"]);
    ours.written(&["daemon", "stop"]);
    let holder = theirs.hold(&["db"]);
    assert_eq!(ours.query(), ["held db exclusive"]);
    holder.release();
}

#[test]
fn a_member_that_is_down_keeps_no_broker_from_starting() {
    let nobody = navlock_testkit::Port::take().unwrap();
    let endpoints = format!("{nobody},{}", super::shared().endpoint());
    let sandbox = Sandbox::new();
    for _ in 0..8 {
        let output =
            sandbox.output(&["daemon", "run", "--idle-seconds", "0", "--etcd", &endpoints]);
        assert!(output.status.success(), "{output:?}");
    }
}
