//! `navlock query`.

use std::process::Stdio;

use serde_json::Value::Null;

use crate::{
    sandbox::{Holder, Lines, Output, Sandbox, finish, wait},
    system::{HELD, SHELL},
    worker,
};

#[test]
fn json_tells_all_that_is_known_of_who_holds_and_who_waits() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["--why", "nightly \u{1b}[2J", "db"]);
    let waiters: Vec<_> = (0..2).map(|_| sandbox.queue(&["db"])).collect();
    let json = sandbox.written(&["query", "--json"]);
    let rows: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |key: &str| rows.iter().map(|row| row[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("state"), ["held", "pending", "pending"]);
    assert_eq!(of("position"), [Null, 1.into(), 2.into()]);
    assert_eq!(of("why"), ["nightly \u{1b}[2J".into(), Null, Null]);
    // The command if there is one, otherwise the process that will run it.
    assert_eq!(rows[0]["pid"], holder.command().as_raw_nonzero().get());
    assert_eq!(rows[0]["command"], SHELL);
    assert_eq!(rows[1]["command"], format!("navlock run {SHELL}"));
    assert!(rows.iter().all(|row| row["ageMs"].is_u64() && row["user"].is_string()));
    // The token is too large for the numbers of JavaScript.
    let fence: u64 = rows[0]["fencingToken"].as_str().unwrap().parse().unwrap();
    assert!(fence > 1 << 53);
    assert_eq!(of("fencingToken")[1..], [Null, Null]);
    // Whatever a client's text contains, it is shown as text alone.
    assert!(!sandbox.written(&["query"]).contains('\u{1b}'));
    holder.release();
    for mut waiter in waiters {
        waiter.begun();
        waiter.release();
    }
}

/// A program says another user of itself, and so does its environment.
#[test]
#[cfg(unix)]
fn the_user_is_the_one_that_the_kernel_knows() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.navlock(&["run", "db"]);
    command.args(HELD).env("USER", "mallory").env("LOGNAME", "mallory");
    let mut holder = Holder::start(command);
    holder.begun();
    let reach = worker::connect(&navlock::Place::at(sandbox.socket()));
    let locks = reach.lock_manager("default");
    let mut info = navlock::this_process();
    info.user = "mallory".to_owned();
    locks.describe(&info);
    let _held = locks.lock("other").blocking().unwrap();
    let id = finish(sandbox.program("id").arg("-un").stdout(Stdio::piped()).spawn().unwrap());
    let json = sandbox.written(&["query", "--json"]);
    assert_eq!(json.lines().count(), 2);
    for row in json.lines() {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        assert_eq!(row["user"], id.stdout.trim());
    }
    holder.release();
}

#[test]
fn colours_are_used_when_asked_for() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let colourful = |arguments: &[&str]| sandbox.written(arguments).contains("\u{1b}[");
    assert!(colourful(&["query", "--color", "always"]));
    assert!(!colourful(&["query", "--color", "never"]));
    assert!(!colourful(&["query"]));
    assert!(!colourful(&["query", "--color", "always", "--json"]));
    holder.release();
}

#[test]
fn a_watch_writes_what_there_is_whenever_that_has_changed() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let mut watch = sandbox
        .navlock(&["query", "--json", "--watch", "db"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = Lines::of(watch.stdout.take().unwrap());
    let mut set = || lines.by_ref().take_while(|line| !line.is_empty()).count();
    assert_eq!(set(), 1);
    let mut waiter = sandbox.wait_for(&["db"]);
    // A new age alone is no change: this is the next picture that it writes.
    assert_eq!(set(), 2);
    holder.release();
    waiter.begun();
    assert_eq!(set(), 1);
    waiter.release();
    // The name of the command may have become known after the grant, which writes once more.
    let last = (0..2).map(|_| set()).find(|count| *count != 1);
    assert_eq!(last, Some(0));
    // The command ends when nobody reads it.
    drop(lines);
    assert!(wait(&mut watch).success());
}

#[test]
fn a_bucket_that_is_empty_is_the_default_one() {
    let sandbox = Sandbox::new();
    let holder: Holder = sandbox.hold(&["--bucket", "", "db"]);
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    let output = Output::of(sandbox.navlock(&["query"]).env("NAVLOCK_BUCKET", ""));
    assert!(output.stdout.contains("db"));
    holder.release();
}

#[test]
#[cfg(unix)]
fn arguments_are_shown_to_nobody_unless_that_was_asked() {
    use crate::sandbox::{eventually, finish};
    let sandbox = Sandbox::new();
    let secret = "hunter2";
    let script = format!("echo $$; : {secret}; exec cat");
    let mut holder = sandbox.hold_by(&["db"], &script);
    let mut line = sandbox.navlock(&["run", "db", "-c", &format!(": {secret}")]);
    let mut waiter = line.spawn().unwrap();
    let wait = sandbox.start(&["wait", "db"]);
    eventually("they wait", || sandbox.query().len() == 3);
    for arguments in [&["query"][..], &["query", "--json"]] {
        let shown = sandbox.written(arguments);
        assert!(!shown.contains(secret), "{shown}");
    }
    // The text is not in the files for the next broker either.
    let files = std::fs::read_dir(sandbox.path("sock.clients")).unwrap();
    for file in files {
        let written = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&written).contains(secret));
    }
    // Waiters do not see the text either.
    eventually("who waits is told for whom", || {
        let said = sandbox.output(&["run", "-w", "1.5", "db", "true"]).stderr;
        assert!(!said.contains(secret), "{said}");
        said.contains("held by sh[")
    });
    holder.let_go();
    assert!(holder.ended().success());
    assert!(self::wait(&mut waiter).success());
    assert!(finish(wait).status.success());
    let holder = sandbox.hold_by(&["--show-args", "db"], &script);
    assert!(sandbox.written(&["query", "--json"]).contains(secret));
    holder.release();
}
