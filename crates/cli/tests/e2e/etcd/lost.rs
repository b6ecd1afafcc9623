//! What becomes of a command when etcd goes away for longer than its lock lasts.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use super::server::{Server, namespace, shared};
use crate::sandbox::{Sandbox, eventually, finish, wait, write};

/// A script that takes the kernel's lock of the file in its first argument, and does not end by itself.
const WORKER: &str = "trap '' TERM; exec 9>\"$1\"; flock -n 9 || exit 1; echo $$; exec sleep 600";

/// Settings with this time to live, and more.
fn settings(server: &Server, seconds: u32, more: &str) -> String {
    format!(
        "[stores.main]\netcd = [\"{}\"]\nnamespace = \"{}\"\ntime-to-live = {seconds}\n{more}",
        server.endpoint(),
        namespace()
    )
}

/// The kernel's own lock tells whether there were two.
fn has_all_ended_before_another_begins(seconds: u32, how_it_is_started: &str) {
    let server = Server::start();
    let settings = settings(&server, seconds, "");
    let [ours, theirs] = [(); 2].map(|()| Sandbox::with_settings(&settings));
    let oracle = ours.path("oracle");
    write(&ours.path("worker"), WORKER);
    let worker = format!("sh worker '{}'", oracle.display());
    let mut holder = ours.hold_by(&["db"], &how_it_is_started.replace("WORKER", &worker));
    // The waiter asks again when etcd is back.
    let oracle = oracle.to_str().unwrap();
    let mut next = theirs.start(&["run", "-w", "60", "db", "flock", "-n", oracle, "true"]);
    eventually("it waits", || theirs.query().len() == 2);
    server.stop();
    // The last renewal of the lease was before this moment.
    let stopped = Instant::now();
    let until_free = Command::new("flock").args(["-w", "60", oracle, "true"]).status();
    assert!(until_free.unwrap().success(), "it works on");
    let given = stopped + Duration::from_secs(seconds.into());
    assert!(Instant::now() < given, "it works on while others may have the lock");
    // The passing time is the fault that is tested: after it, etcd gives the lock to others.
    let long_after = given + Duration::from_millis(1500);
    thread::sleep(long_after.saturating_duration_since(Instant::now()));
    server.go_on();
    assert!(wait(&mut next).success(), "two commands at once: {:?}", finish(next));
    assert_eq!(holder.ended().code(), Some(75));
}

#[test]
fn a_command_and_its_children_have_ended_before_another_machine_is_granted() {
    has_all_ended_before_another_begins(5, "trap '' TERM; WORKER & wait; wait");
}

#[test]
fn a_command_and_its_daemons_have_ended_before_another_machine_is_granted() {
    has_all_ended_before_another_begins(
        10,
        "(setsid WORKER &); trap '' TERM; while :; do sleep 1; done",
    );
}

#[test]
fn a_grace_that_would_last_until_another_is_granted_is_refused_and_a_larger_margin_allows_it() {
    let server = shared();
    let sandbox = Sandbox::with_settings(&settings(server, 5, ""));
    let refused = sandbox.output(&["run", "--grace", "1.5", "db", "true"]);
    assert_eq!(refused.status.code(), Some(64));
    let said = refused.stderr;
    for what in ["1.0 s after", "--grace 0.7 or less", "margin = 2.0 in the settings of the store"]
    {
        assert!(said.contains(what), "{said}");
    }
    assert_eq!(sandbox.code(&["run", "--grace", "0.7", "db", "true"]), 0);
    assert_eq!(sandbox.code(&["run", "--grace", "60", "--on-lost=kill", "db", "true"]), 0);
    let sandbox = Sandbox::with_settings(&settings(server, 5, "margin = 2\n"));
    assert_eq!(sandbox.code(&["run", "--grace", "1.5", "db", "true"]), 0);
}

#[test]
fn locks_lost_by_an_outage_are_counted_whichever_process_notices_it_first() {
    let server = Server::start();
    let sandbox = Sandbox::with_settings(&settings(&server, 5, ""));
    // Three agents, each with a term of its own.
    let mut holders = ["a", "b", "c"].map(|name| sandbox.hold(&[name]));
    server.stop();
    for holder in &mut holders {
        assert_eq!(holder.ended().code(), Some(75));
    }
    let of = |name: &str| {
        let counted = sandbox.written(&["daemon", "metrics"]);
        let line = counted.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{counted}")).to_owned()
    };
    // The broker may hear of it after the commands have ended.
    eventually("all are counted", || of("navlock_broker_losses_total") == "3");
    assert_eq!(of("navlock_broker_releases_total"), "0");
    server.go_on();
}
