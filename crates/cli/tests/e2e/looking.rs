//! `navlock watch`, `navlock clients`, and `navlock query` of all buckets.

use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use crate::{
    sandbox::{Lines, Sandbox, eventually, wait},
    system::Pid,
};

/// A `navlock watch --json`, and what it writes.
struct Watch {
    child: Child,
    lines: Lines<ChildStdout>,
}

impl Watch {
    fn start(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        let arguments = [&["watch", "--json"], arguments].concat();
        let mut child = sandbox.navlock(&arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = Lines::of(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The next event of this kind.
    fn next(&mut self, event: &str) -> Value {
        self.next_of(&[event])
    }

    /// The next event of one of these kinds.
    fn next_of(&mut self, events: &[&str]) -> Value {
        loop {
            let line = self.lines.next().expect("it goes on");
            let value: Value = serde_json::from_str(&line).unwrap();
            if events.iter().any(|event| value["event"] == *event) {
                return value;
            }
        }
    }
}

#[test]
fn a_watch_tells_what_there_is_and_then_what_happens() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["--why", "to see", "db"]);
    let mut watch = Watch::start(&sandbox, &["db"]);
    assert_eq!(watch.lines.next().as_deref(), Some(r#"{"event":"picture"}"#));
    let held = watch.next("held");
    assert_eq!((&held["name"], &held["why"]), (&"db".into(), &"to see".into()));
    assert_eq!(held["pid"], holder.command().as_raw_nonzero().get());
    let mut waiter = sandbox.wait_for(&["db"]);
    let requested = watch.next("requested");
    let other = sandbox.hold(&["other"]);
    holder.release();
    let released = watch.next("released");
    assert_eq!((&released["serial"], &released["clientId"]), (&held["serial"], &held["clientId"]));
    assert!(released["ageMs"].is_u64());
    let granted = watch.next("granted");
    assert_eq!(granted["clientId"], requested["clientId"]);
    assert_eq!(granted["name"], "db");
    waiter.begun();
    waiter.release();
    watch.next("released");
    other.release();
    // `navlock watch` ends when nobody reads it.
    drop(watch.lines);
    assert!(wait(&mut watch.child).success());
}

#[test]
fn a_watch_tells_that_what_a_killed_process_had_is_released() {
    let sandbox = Sandbox::new();
    let mut holder = sandbox.hold(&["db"]);
    let mut watch = Watch::start(&sandbox, &["db"]);
    let held = watch.next("held");
    let mut waiter = sandbox.wait_for(&["db"]);
    let requested = watch.next("requested");
    waiter.kill_wrapper();
    let aborted = watch.next("aborted");
    assert_eq!(
        (&aborted["serial"], &aborted["clientId"]),
        (&requested["serial"], &requested["clientId"])
    );
    holder.kill_wrapper();
    holder.kill_command();
    let released = watch.next("released");
    assert_eq!((&released["serial"], &released["clientId"]), (&held["serial"], &held["clientId"]));
    drop(watch.lines);
    assert!(wait(&mut watch.child).success());
}

#[test]
fn a_watch_goes_on_when_the_broker_is_another_one() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let mut watch = Watch::start(&sandbox, &[]);
    let before = watch.next("held");
    sandbox.kill_broker();
    // A program forgets here what it was told by the first broker.
    watch.next("picture");
    // The next broker hears of the lock from its holder, perhaps only after the watch has begun to look at
    // this broker.
    let after = watch.next_of(&["held", "granted"]);
    assert_eq!((&after["serial"], &after["clientId"]), (&before["serial"], &before["clientId"]));
    assert_eq!(after["fencingToken"], before["fencingToken"]);
    holder.release();
    watch.next("released");
    drop(watch.lines);
    assert!(wait(&mut watch.child).success());
}

#[test]
#[cfg(unix)]
fn a_lock_that_is_taken_inside_another_one_is_granted_once() {
    let sandbox = Sandbox::new();
    let first = sandbox.hold(&["first"]);
    let mut watch = Watch::start(&sandbox, &[]);
    watch.next("held");
    first.release();
    let line = "exec \"$NAVLOCK\" run inner true";
    assert_eq!(sandbox.code(&["run", "outer", "sh", "-c", line]), 0);
    let mut granted = Vec::new();
    loop {
        let event = watch.next_of(&["granted", "released"]);
        match event["event"].as_str() {
            Some("granted") => granted.push(event["name"].as_str().unwrap().to_owned()),
            _ if event["name"] == "outer" => break,
            _ => {}
        }
    }
    assert_eq!(granted, ["outer", "inner"]);
    drop(watch.lines);
    assert!(wait(&mut watch.child).success());
}

#[test]
fn a_lock_in_another_bucket_is_found() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["--bucket", "elsewhere", "db"]);
    assert_eq!(sandbox.written(&["query", "--json"]), "");
    let all = sandbox.written(&["query", "--json", "--all-buckets"]);
    let found: Value = serde_json::from_str(&all).unwrap();
    assert_eq!((&found["bucket"], &found["name"]), (&"elsewhere".into(), &"db".into()));
    let table = sandbox.written(&["query", "-a"]);
    assert!(table.starts_with("STATE  BUCKET     NAME"), "{table}");
    assert_eq!(sandbox.written(&["query", "-a", "another"]), "");
    holder.release();
}

#[test]
fn a_lock_that_has_not_lasted_so_long_is_left_out() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    assert_eq!(sandbox.written(&["query", "--longer-than", "1h"]), "");
    for all in [&["query", "--json"][..], &["query", "--json", "-a"]] {
        let arguments = [all, &["--longer-than", "10ms"]].concat();
        eventually("it has lasted so long", || !sandbox.written(&arguments).is_empty());
    }
    assert_eq!(sandbox.code(&["query", "--longer-than", "soon"]), 64);
    holder.release();
}

#[test]
fn clients_are_shown_with_how_much_each_has() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.written(&["clients"]), "");
    let mut holder = sandbox.hold(&["-l", "a", "-l", "b"]);
    let waiter = sandbox.queue(&["a"]);
    let clients = || -> Vec<Value> {
        let text = sandbox.written(&["clients", "--json"]);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let all = clients();
    let of = |pid: Pid| {
        let pid = pid.as_raw_nonzero().get();
        all.iter().find(|client| client["pid"] == pid).expect("it is shown").clone()
    };
    let (one, two) = (of(holder.wrapper()), of(waiter.wrapper()));
    assert_eq!((&one["held"], &one["pending"]), (&2.into(), &0.into()));
    assert_eq!((&two["held"], &two["pending"]), (&0.into(), &1.into()));
    assert_eq!(one["state"], "connected");
    assert_eq!(one["agents"][0]["pid"], holder.command().as_raw_nonzero().get());
    holder.kill_wrapper();
    eventually("its command has inherited its locks", || {
        clients().iter().any(|client| client["state"] == "orphaned" && client["held"] == 2)
    });
    assert!(sandbox.written(&["clients"]).contains("orphaned"));
    holder.kill_command();
    let mut waiter = waiter;
    waiter.begun();
    waiter.release();
}
