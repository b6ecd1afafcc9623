//! An etcd that has no room for more.

use super::{machines_of, own, server::Server};
use crate::sandbox::{Sandbox, eventually, finish, wait};

/// How much room etcd has.
const QUOTA: usize = 4 << 20;

/// The size of each write: as much as one argument of a program can have.
const PIECE: usize = 100 << 10;

/// Writes to etcd until it takes no more, and calls `meanwhile` besides.
fn fill(server: &Server, meanwhile: impl Fn()) {
    let piece = "x".repeat(PIECE);
    for nth in 0..2 * QUOTA / PIECE {
        if let Err(said) = server.etcdctl(&["put", &format!("junk/{nth}"), &piece]) {
            assert!(said.contains("database space exceeded"), "{said}");
            return;
        }
        meanwhile();
    }
    panic!("it takes more than it has room for");
}

/// Makes room, as docs/etcd.md says.
fn make_room(server: &Server) {
    server.etcdctl(&["del", "--prefix", "junk/"]).unwrap();
    let status = server.etcdctl(&["endpoint", "status", "-w", "json"]).unwrap();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let revision = status[0]["Status"]["header"]["revision"].to_string();
    server.etcdctl(&["compact", &revision]).unwrap();
    server.etcdctl(&["defrag"]).unwrap();
    server.etcdctl(&["alarm", "disarm"]).unwrap();
}

/// What `navlock run` says if it gets no lock.
fn refusal(machine: &Sandbox) -> String {
    let output = machine.output(&["run", "other", "true"]);
    assert_eq!(output.code(), Some(69), "{output:?}");
    output.stderr
}

#[test]
fn while_etcd_is_full_locks_are_kept_and_released_and_none_is_granted_until_it_has_room() {
    let server = Server::start_with([format!("--quota-backend-bytes={QUOTA}")]);
    let [ours, theirs] = machines_of(&server.endpoint(), "navlock", "15");
    let mut holder = ours.hold(&["db"]);
    let mut waiter = theirs.start(&["run", "db", "true"]);
    eventually("it waits", || ours.query().len() == 2);
    own(&ours, "owned");
    let takes_owned = || assert_eq!(ours.code(&["run", "owned", "true"]), 0);
    // An owned name that nobody takes for long is given up, so take it meanwhile.
    fill(&server, takes_owned);
    // It is taken without a write to etcd.
    takes_owned();

    let is_told = |said: &str| {
        assert!(said.contains("mvcc: database space exceeded; it is full"), "{said}");
        assert!(said.contains("locks are kept and released, and none is granted"), "{said}");
    };
    is_told(&refusal(&ours));
    is_told(&refusal(&theirs));
    let doctor = ours.output(&["doctor"]);
    assert_eq!(doctor.status.code(), Some(1));
    let doctor = doctor.stdout;
    let failed: Vec<_> = doctor.lines().filter(|line| line.starts_with("fail")).collect();
    let [member, writes] = &*failed else { panic!("{doctor}") };
    assert!(member.contains("NOSPACE"), "{member}");
    assert!(writes.contains("etcd writes: etcd refused"), "{writes}");
    for line in [member, writes] {
        assert!(line.contains("etcd is full") && line.contains("etcdctl alarm disarm"), "{line}");
    }

    // Wait longer than a lease lasts without renewal: each one is renewed three times in that.
    let renewed = || server.metric("etcd_debugging_lease_renewed_total");
    let before = renewed();
    eventually("the leases are kept", || renewed() >= before + 12);
    assert!(!holder.has_ended());
    assert_eq!(theirs.query(), ["held db exclusive", "pending db exclusive"]);
    holder.release();
    // A grant writes to etcd.
    assert_eq!(wait(&mut waiter).code(), Some(69));
    is_told(&finish(waiter).stderr);
    eventually("nothing of it is left", || theirs.query().is_empty());

    make_room(&server);
    for machine in [&ours, &theirs] {
        assert_eq!(machine.code(&["run", "db", "true"]), 0);
        assert_eq!(machine.code(&["doctor"]), 0);
    }
}
