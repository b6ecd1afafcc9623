//! An etcd that does not answer for a while.

use std::fs::{self, File};

use super::server::Server;
use crate::sandbox::{Holder, Sandbox, eventually};

#[test]
fn who_holds_is_warned_while_etcd_does_not_answer() {
    let server = Server::start();
    // A warning comes after 7.5 s, and the lock is lost after 18.
    let settings = format!("[etcd]\nendpoints = [\"{}\"]\ntime-to-live = 20\n", server.endpoint());
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
    let query = String::from_utf8(query.stderr).unwrap();
    assert!(query.contains("no answer for") && query.contains("locks are lost in"), "{query}");
    let said = said();
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].starts_with("navlock: etcd has not answered for "), "{said}");
    assert!(lines[0].contains("; \"db\" is yours for "), "{said}");
    assert_eq!(lines[1..], ["navlock: etcd answers again"]);
    holder.release();
    assert!(!machine.written(&["daemon", "status"]).contains("no answer for"));
    // It can be read later on.
    let logs = || machine.written(&["daemon", "logs"]);
    eventually("it is in the log", || logs().contains("etcd answers again"));
    let logs = logs();
    let of_etcd: Vec<_> = logs.lines().filter(|line| line.contains(" navlock::etcd: ")).collect();
    let silent = |line: &&str| line.contains("WARN") && line.contains("etcd does not answer");
    assert!(of_etcd.first().is_some_and(silent), "{logs}");
    assert!(of_etcd.iter().any(|line| line.contains("etcd answers again")), "{logs}");
    assert!(!logs.contains("db"), "there is a name in it: {logs}");
}
