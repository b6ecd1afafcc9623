//! `navlock daemon`.

use std::process::Stdio;

use crate::sandbox::{Sandbox, eventually, finish};

#[test]
fn a_broker_is_started_once_shown_and_stopped() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.code(&["daemon", "status"]), 69);
    assert!(sandbox.written(&["daemon", "stop"]).starts_with("no broker is running"));
    assert!(sandbox.broker().is_none(), "to ask has started one");

    assert!(sandbox.written(&["daemon", "start"]).contains("was started"));
    let broker = sandbox.broker().unwrap();
    let again = sandbox.written(&["daemon", "start"]);
    assert!(again.contains("is running already"), "{again}");
    assert!(again.contains(&format!("process {}", broker.as_raw_nonzero())), "{again}");

    let shown = sandbox.written(&["daemon", "status"]);
    assert!(shown.contains(&broker.as_raw_nonzero().to_string()), "{shown}");
    let json = sandbox.written(&["daemon", "status", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["running"], true);
    assert_eq!(json["pid"], broker.as_raw_nonzero().get());
    assert_eq!(json["socket"].as_str(), sandbox.socket().to_str());

    assert!(sandbox.written(&["daemon", "stop"]).contains("has ended"));
    assert!(sandbox.broker().is_none());
    let output = sandbox.output(&["daemon", "status", "--json"]);
    assert_eq!(output.status.code(), Some(69));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["running"], false);
}

#[test]
fn a_broker_that_is_stopped_leaves_the_locks_to_the_next() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["-s", "db"]);
    let mut orphan = sandbox.hold(&["-s", "db"]);
    orphan.kill_wrapper();
    let mut waiter = sandbox.queue(&["db"]);
    let status = || -> serde_json::Value {
        serde_json::from_str(&sandbox.written(&["daemon", "status", "--json"])).unwrap()
    };
    eventually("the orphan is one", || status()["orphans"] == 1);
    let before = status();
    assert_eq!([&before["held"], &before["pending"]], [2, 1]);
    assert_eq!(before["release"], env!("CARGO_PKG_VERSION"));
    assert_eq!(before["clients"], 3, "the holder, the waiter and who asks");

    let said = sandbox.written(&["daemon", "stop"]);
    assert!(said.ends_with("; its 2 clients start another one and keep their locks\n"), "{said}");
    eventually("there is another", || {
        sandbox.broker().is_some_and(|broker| before["pid"] != broker.as_raw_nonzero().get())
    });
    assert_eq!(sandbox.query(), ["held db shared", "held db shared", "pending db exclusive"]);
    orphan.let_go();
    holder.release();
    waiter.begun();
    waiter.release();
}

#[test]
fn what_a_dead_broker_has_noted_is_not_believed() {
    let sandbox = Sandbox::new();
    sandbox.written(&["daemon", "start"]);
    sandbox.kill_broker();
    eventually("the broker ends", || sandbox.broker().is_none());
    assert!(sandbox.path("sock.broker.lock").exists());
    assert!(sandbox.written(&["daemon", "stop"]).starts_with("no broker is running"));
    assert_eq!(sandbox.code(&["daemon", "status"]), 69);
}

#[test]
fn a_service_manager_can_run_it() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.navlock(&["daemon", "run", "--idle-seconds", "0.1"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output = finish(child);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"ready\n");
    // And one that is in its way is named.
    sandbox.written(&["daemon", "start"]);
    let output = sandbox.output(&["daemon", "run"]);
    assert_eq!(output.status.code(), Some(69));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("another broker (process"), "{said}");
}
