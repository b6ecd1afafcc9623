//! Machines, each with a broker of its own, that share their locks by a PostgreSQL.

#[path = "../../../postgres/tests/server/mod.rs"]
mod server;

use std::{fs, os::unix::fs::PermissionsExt};

use self::server::Server;
use crate::sandbox::{Sandbox, eventually, write};

/// Machines that share their locks by a server, once that is set up.
fn machines<const N: usize>() -> (Server, [Sandbox; N]) {
    let server = Server::start();
    let settings = format!(
        "[stores.main]\npostgres = \"{}\"\nschema = \"e2e\"\ntime-to-live = 15\n",
        server.url()
    );
    (server, [(); N].map(|()| Sandbox::with_settings(&settings)))
}

/// These words of a command about the store.
fn of_store<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [words, &["--store", "main"]].concat()
}

#[test]
fn two_machines_share_a_lock_once_the_database_is_set_up() {
    let (_server, [ours, theirs]) = machines();
    let output = ours.output(&["run", "db", "true"]);
    assert_eq!(output.code(), Some(69), "{output:?}");
    assert!(output.stderr.contains("navlock is not set up in this database"), "{output:?}");
    let doctor = ours.output(&["doctor"]);
    assert_eq!(doctor.code(), Some(1));
    assert!(doctor.stdout.contains("'navlock postgres init' does it"), "{doctor:?}");

    let init = of_store(&["postgres", "init"]);
    assert!(ours.written(&init).contains("is set up in the schema e2e"));
    assert!(ours.written(&init).contains("is set up already"));

    let holder = ours.hold(&["db"]);
    assert_eq!(theirs.code(&["run", "-n", "db", "true"]), 1);
    let mut next = theirs.queue(&["db"]);
    assert_eq!(ours.query(), ["held db exclusive", "pending db exclusive"]);
    assert!(theirs.written(&["query", "-v"]).contains("held"), "the holder is shown");
    let status = ours.written(&["daemon", "status"]);
    assert!(
        status.contains("PostgreSQL at 127.0.0.1:") && status.contains(", schema e2e"),
        "{status}"
    );
    let doctor = ours.output(&["doctor"]);
    assert_eq!(doctor.code(), Some(0), "{doctor:?}");
    for line in [
        "ok    PostgreSQL calls: answered after ",
        "ok    PostgreSQL notifications: arrive",
        "ok    PostgreSQL sessions: ",
        "ok    PostgreSQL transactions: none of others is open for long",
    ] {
        assert!(doctor.stdout.contains(line), "{line}: {doctor:?}");
    }

    let drop = of_store(&["postgres", "drop"]);
    let refused = ours.output(&drop);
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("machines that use it: 2"), "{refused:?}");
    holder.release();
    next.begun();
    next.release();
    for machine in [&ours, &theirs] {
        machine.written(&["daemon", "stop"]);
    }
    eventually("nobody uses it", || ours.code(&drop) == 0);
    assert!(ours.output(&drop).stderr.contains("not set up"));
}

#[test]
fn what_another_machine_left_behind_is_evicted() {
    let (_server, [ours, theirs]) = machines();
    ours.written(&of_store(&["postgres", "init"]));
    let mut holder = theirs.hold(&["db"]);
    let json: serde_json::Value =
        serde_json::from_str(&ours.written(&["query", "--json"])).unwrap();
    let client = json["clientId"].as_str().unwrap();
    assert!(ours.written(&of_store(&["evict", "db", client])).starts_with("removed "));
    assert_eq!(holder.ended().code(), Some(75));
}

#[test]
fn a_schema_is_printed_and_a_stranger_is_left_alone() {
    let (server, [machine]) = machines();
    let printed = machine.written(&of_store(&["postgres", "init", "--print"]));
    assert!(
        printed.starts_with("begin;") && printed.contains("create schema \"e2e\""),
        "{printed}"
    );
    assert_eq!(machine.code(&["postgres", "init", "--socket", "/nowhere"]), 64);
    // A schema that is none of navlock's.
    assert!(server.psql("create schema others create table machines (id int)").status.success());
    write(
        &machine.path("config.toml"),
        &format!("[stores.main]\npostgres = \"{}\"\nschema = \"others\"\n", server.url()),
    );
    let dropped = machine.output(&of_store(&["postgres", "drop", "--yes"]));
    assert_eq!(dropped.code(), Some(69), "{dropped:?}");
    assert!(server.psql("select from others.machines").status.success());
}

#[test]
fn a_password_is_the_line_of_a_file_and_is_not_shown() {
    let (server, [machine]) = machines();
    let settings = |more: &str| {
        let url = server.url();
        write(
            &machine.path("config.toml"),
            &format!("[stores.main]\npostgres = \"{url}\"\npassword-file = \"secret\"\n{more}"),
        );
        fs::set_permissions(machine.path("config.toml"), fs::Permissions::from_mode(0o600))
            .unwrap();
        machine.output(&["doctor"])
    };
    write(&machine.path("secret"), "s3cret\n");
    fs::set_permissions(machine.path("secret"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(settings("").stdout.contains("has mode 0644"));
    fs::set_permissions(machine.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let shown = settings("");
    assert!(shown.stdout.contains("ok    PostgreSQL 127.0.0.1:"), "{shown:?}");
    assert!(!format!("{shown:?}").contains("s3cret"), "{shown:?}");
    assert!(settings("margin = 6\n").stdout.contains("margin = 6: it needs 0.5 s"));
    let two = machine.output(&["doctor", "--etcd", "a:1", "--postgres", "postgres://a/b"]);
    assert!(two.stdout.contains("--etcd and --postgres name two stores"), "{two:?}");
    let other = machine.output(&of_store(&["doctor", "--etcd", "a:1"]));
    assert!(other.stdout.contains("--etcd does not fit the store of "), "{other:?}");
}
