//! An etcd that does not answer for a while.

use std::fs::{self, File};

use super::server::Server;
use crate::sandbox::{Holder, Sandbox, eventually};

#[test]
fn a_holder_is_warned_while_etcd_does_not_answer() {
    let server = Server::start();
    // A warning comes after 7.5 s, and the lock is lost after 18.
    let settings =
        format!("[stores.main]\netcd = [\"{}\"]\ntime-to-live = 20\n", server.endpoint());
    let machine = Sandbox::with_settings(&settings);
    let said = machine.path("said");
    let mut command = machine.navlock(&["run", "db", "sh", "-c", "echo $$; exec cat"]);
    command.stderr(File::create(&said).unwrap());
    let mut holder = Holder::start(command);
    holder.begun();
    let said = || fs::read_to_string(&said).unwrap();
    server.stop();
    eventually("it is warned", || !said().is_empty());
    let status = machine.written(&["daemon", "status"]);
    let query = machine.output(&["query"]);
    server.go_on();
    eventually("it is told that this is over", || said().contains("etcd answers again"));
    assert!(status.contains("no answer for"), "{status}");
    assert_eq!(query.status.code(), Some(69));
    let query = query.stderr;
    assert!(query.contains("no answer for") && query.contains("locks are lost in"), "{query}");
    let said = said();
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].starts_with("navlock: etcd has not answered for "), "{said}");
    assert!(lines[0].contains("; \"db\" is yours for "), "{said}");
    assert_eq!(lines[1..], ["navlock: etcd answers again"]);
    holder.release();
    assert!(!machine.written(&["daemon", "status"]).contains("no answer for"));
    // The report can still be read later.
    let logs = || machine.written(&["daemon", "logs"]);
    eventually("it is in the log", || logs().contains("etcd answers again"));
    let logs = logs();
    let of_etcd: Vec<_> = logs.lines().filter(|line| line.contains(" navlock::etcd: ")).collect();
    let silent = |line: &&str| line.contains("WARN") && line.contains("etcd does not answer");
    assert!(of_etcd.first().is_some_and(silent), "{logs}");
    assert!(of_etcd.iter().any(|line| line.contains("etcd answers again")), "{logs}");
    assert!(!logs.contains("db"), "there is a name in it: {logs}");
}

/// What a command says that does not get its lock, and its exit code.
fn refused(machine: &Sandbox, arguments: &[&str]) -> (String, Option<i32>) {
    let output = machine.output(&[&["run"], arguments, &["true"]].concat());
    let code = output.code();
    (output.stderr, code)
}

#[test]
fn an_outage_is_told_for_as_long_as_it_lasts_to_whoever_asks_or_waits() {
    let server = Server::start();
    let settings = format!("[stores.main]\netcd = [\"{}\"]\ntime-to-live = 5\n", server.endpoint());
    let [ours, theirs] = [(); 2].map(|()| Sandbox::with_settings(&settings));
    let mut holder = ours.hold(&["db"]);
    let said = theirs.path("said");
    let mut command = theirs.navlock(&["run", "db", "sh", "-c", "echo $$; exec cat"]);
    command.stderr(File::create(&said).unwrap());
    let mut waiter = Holder::start(command);
    eventually("it waits", || ours.query().len() == 2);
    server.stop();
    // When the holder has ended, no lease is valid any more, and no lock is held that would have a term.
    assert_eq!(holder.ended().code(), Some(75));
    let outage = |machine: &Sandbox| {
        let status = machine.written(&["daemon", "status"]);
        let row = status.lines().find_map(|line| line.strip_prefix("outage "));
        row.map(|row| row.trim().to_owned())
    };
    for machine in [&ours, &theirs] {
        eventually("its lease is over", || {
            outage(machine).is_some_and(|outage| !outage.contains("locks are lost in"))
        });
        let outage = outage(machine).unwrap();
        assert!(outage.starts_with("etcd has not answered for "), "{outage}");
        let granted = "grants nothing meanwhile but names that this machine owns";
        assert!(outage.ends_with(granted), "{outage}");
    }
    let endpoint = server.endpoint();
    let because =
        format!("cannot reach etcd: no answer from {endpoint}; etcd has not answered for ");
    // A command does not wait long for what the broker says of this.
    let is_said = |arguments: &[&str], what: &str| {
        let (said, code) = refused(&ours, arguments);
        assert_eq!(code, Some(69), "{said}");
        said.contains(&format!("{what}{because}"))
    };
    let at_once = "\"other\" could not be had at once: ";
    eventually("who does not wait is told", || is_said(&["-n", "other"], at_once));
    let within = "\"other\" could not be had within 1 s: ";
    eventually("who waits no longer is told", || is_said(&["-w", "1", "other"], within));
    eventually("no option hides it", || is_said(&["-q", "-E", "7", "-w", "1", "other"], within));
    // The line that comes after 10 s.
    let said = || fs::read_to_string(&said).unwrap();
    eventually("who waits is told", || said().contains("etcd has not answered for "));
    server.go_on();
    waiter.begun();
    waiter.release();
    for machine in [&ours, &theirs] {
        eventually("it is over", || outage(machine).is_none());
    }
}

#[test]
fn a_request_during_an_outage_of_etcd_is_told_so_with_or_without_a_lease_or_a_broker() {
    let server = Server::start();
    let settings = format!("[stores.main]\netcd = [\"{}\"]\ntime-to-live = 5\n", server.endpoint());
    let [ours, theirs, begins] = [(); 3].map(|()| Sandbox::with_settings(&settings));
    let holder = ours.hold(&["db"]);
    // The broker of this machine has no lease yet.
    assert_eq!(theirs.query().len(), 1);
    server.stop();
    let failed = |machine: &Sandbox| {
        let (said, code) = refused(machine, &["other"]);
        assert_eq!(code, Some(69), "{said}");
        assert!(!said.contains("the queue"), "it had no place there: {said}");
        said
    };
    // The lease of the first machine may not be over yet.
    for machine in [&ours, &theirs] {
        let said = failed(machine);
        assert!(said.contains("cannot reach etcd: "), "{said}");
    }
    let said = failed(&begins);
    let endpoint = server.endpoint();
    assert!(said.contains(&format!("cannot reach etcd at {endpoint}: ")), "{said}");
    assert!(begins.broker().is_none(), "a broker has begun");
    server.go_on();
    drop(holder);
}
