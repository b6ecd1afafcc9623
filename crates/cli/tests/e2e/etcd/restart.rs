//! What machines share outlives their brokers.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{
    machines,
    server::{Server, namespace},
};
use crate::sandbox::{Sandbox, eventually};

/// Longer than etcd keeps what the killed broker has left: the time to live, and a second for etcd
/// to notice.
const OVER: Duration = Duration::from_secs(17);

const QUEUE: [&str; 2] = ["held db exclusive", "pending db exclusive"];

/// The token of the holder.
fn token_of_holder(machine: &Sandbox) -> String {
    let json = machine.written(&["query", "--json", "db"]);
    let first = json.lines().next().expect("somebody holds");
    let row: serde_json::Value = serde_json::from_str(first).unwrap();
    row["fencingToken"].as_str().expect("a holder has a token").to_owned()
}

/// Checks that nothing changes until what a killed broker has left is over.
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
    let token = token_of_holder(&theirs);
    ours.replace_broker();
    stays(&theirs);
    assert_eq!([token_of_holder(&ours), token_of_holder(&theirs)], [&*token, &*token]);
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
    // The next command on that machine starts another broker.
    assert_eq!(ours.code(&["run", "-n", "db", "true"]), 1);
    stays(&theirs);
    holder.kill_command();
    waiter.begun();
    waiter.release();
}

#[test]
fn a_waiter_keeps_its_place_when_its_broker_is_killed() {
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

#[test]
fn a_command_still_holds_whose_navlock_is_killed_while_the_next_broker_asks_for_its_lock() {
    let server = Server::start();
    // The time to live is longer than all this takes.
    let settings = format!(
        "[stores.main]\netcd = [\"{}\"]\nnamespace = \"{}\"\ntime-to-live = 60\n",
        server.endpoint(),
        namespace()
    );
    let [ours, theirs] = [(); 2].map(|()| Sandbox::with_settings(&settings));
    let mut holder = ours.hold(&["db"]);
    let mut waiter = theirs.queue(&["db"]);
    holder.stop();
    let killed = ours.kill_broker();
    eventually("the broker ends", || ours.broker() != Some(killed));
    ours.written(&["daemon", "start"]);
    // The holder comes back to a broker to which etcd does not answer, and is killed then.
    let clients = || -> serde_json::Value {
        let status = ours.written(&["daemon", "status", "--json"]);
        serde_json::from_str::<serde_json::Value>(&status).unwrap()["clients"].take()
    };
    assert_eq!(clients(), 0);
    server.stop();
    holder.signal(Signal::CONT);
    eventually("it has come back", || clients() == 1);
    holder.kill_wrapper();
    let since = Instant::now();
    // Wait until the broker has seen the end, and not so long that it gives up on etcd.
    eventually("the broker has seen its end", || since.elapsed() > Duration::from_secs(2));
    server.go_on();
    let since = Instant::now();
    eventually("what was asked of etcd is done", || {
        assert_eq!(theirs.query(), QUEUE);
        since.elapsed() > Duration::from_secs(2)
    });
    holder.kill_command();
    waiter.begun();
    waiter.release();
}
