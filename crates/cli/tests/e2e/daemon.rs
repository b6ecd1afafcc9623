//! `navlock daemon`.

use std::process::Stdio;
#[cfg(unix)]
use std::{
    fs,
    os::unix::{fs::DirBuilderExt, net::UnixListener},
};

#[cfg(unix)]
use rustix::{
    fs::{FlockOperation, flock},
    process::{Signal, geteuid, kill_process},
};

#[cfg(unix)]
use crate::sandbox::wait;
use crate::sandbox::{Sandbox, eventually, finish};
#[cfg(target_os = "linux")]
use crate::{sandbox::NAVLOCK, system::absolute};

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
    assert_eq!(output.code(), Some(69));
    let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
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
    assert_eq!(before["clients"], 2, "the holder and the waiter");

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
fn the_notes_of_a_dead_broker_are_not_believed() {
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
    assert_eq!(output.stdout.trim_end(), "ready");
    // A broker that is in the way is named.
    sandbox.written(&["daemon", "start"]);
    let output = sandbox.output(&["daemon", "run"]);
    output.assert_says(69, "another broker (process");
}

#[test]
#[cfg(unix)]
fn a_number_in_a_file_is_nobodys_end() {
    let sandbox = Sandbox::new();
    let mut victim = sandbox.program("sleep").arg("600").spawn().unwrap();
    let lock = fs::File::create(sandbox.path("sock.broker.lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    for number in [victim.id().to_string(), "-1".to_owned(), "0".to_owned()] {
        fs::write(sandbox.path("sock.broker.lock"), number).unwrap();
        assert!(sandbox.written(&["daemon", "stop"]).starts_with("no broker is running"));
        assert_eq!(sandbox.code(&["daemon", "status"]), 69);
    }
    // Nor is a broker in a place that another user has made, whoever listens there.
    if geteuid().is_root() {
        let _listener = UnixListener::bind(sandbox.socket()).unwrap();
        std::os::unix::fs::chown(sandbox.path(""), Some(65534), None).unwrap();
        let output = sandbox.output(&["daemon", "stop"]);
        output.assert_says(69, "is owned by uid 65534");
    }
    assert!(victim.try_wait().unwrap().is_none());
    victim.kill().unwrap();
    victim.wait().unwrap();
    fs::remove_file(sandbox.path("sock.broker.lock")).unwrap();
}

#[test]
#[cfg(unix)]
fn a_pipe_in_the_place_of_a_lock_hangs_nobody() {
    let sandbox = Sandbox::new();
    for name in ["sock.broker.lock", "sock.tokens"] {
        sandbox.pipe(name);
    }
    assert!(sandbox.written(&["daemon", "stop"]).starts_with("no broker is running"));
    assert_eq!(sandbox.code(&["doctor"]), 0);
    let output = sandbox.output(&["run", "db", "true"]);
    output.assert_says(69, "sock.broker.lock: it is no file; remove it");
    fs::remove_file(sandbox.path("sock.broker.lock")).unwrap();
    assert_eq!(sandbox.code(&["run", "db", "true"]), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_broker_that_does_not_answer_is_ended_by_a_signal_and_its_clients_keep_their_locks() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let broker = sandbox.broker().unwrap();
    kill_process(broker, Signal::STOP).unwrap();
    let said = sandbox.written(&["daemon", "stop"]);
    assert!(said.contains("has ended, by a signal"), "{said}");
    eventually("there is another", || sandbox.broker().is_some_and(|next| next != broker));
    assert_eq!(sandbox.query(), ["held db exclusive"]);
    holder.release();
}

#[test]
#[cfg(unix)]
fn a_process_that_listens_and_is_no_broker_is_not_signalled() {
    let sandbox = Sandbox::new();
    // This test is the process at the other end.
    let _listener = UnixListener::bind(sandbox.socket()).unwrap();
    let output = sandbox.output(&["daemon", "stop"]);
    assert_eq!(output.code(), Some(1), "{output:?}");
    let said = output.stderr;
    assert!(said.contains("which process it is cannot be told for certain"), "{said}");
}

#[test]
#[cfg(target_os = "linux")]
fn on_a_full_disk_the_broker_is_found_and_ended_all_the_same() {
    let sandbox = Sandbox::new();
    let disk = sandbox.path("disk");
    fs::create_dir(&disk).unwrap();
    // A disk of our own, which has room for the broker's files and then for nothing.
    let script = r#"set -e
        mount -t tmpfs -o size=64k,nr_inodes=16,mode=700 none "$0"
        export NAVLOCK_SOCKET="$0/sock"
        "$NAVLOCK" daemon start >&2
        i=0; while touch "$0/$i" 2>/dev/null; do i=$((i+1)); done
        head -c 1M /dev/zero >"$0/0" 2>/dev/null || :
        "$NAVLOCK" daemon status
        "$NAVLOCK" doctor | grep broker:
        "$NAVLOCK" daemon stop
        "$NAVLOCK" daemon status || echo "then $?""#;
    let mut command = sandbox.program("unshare");
    command.args(["-rm", "sh", "-c", script]).arg(&disk).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    wait(&mut child);
    let output = finish(child);
    let (shown, said) = (output.stdout, output.stderr);
    if said.contains("unshare") || said.contains("mount:") {
        println!("skipped: no disk of our own is to be had: {said}");
        return;
    }
    assert!(shown.contains("clients") && shown.contains("ok    broker: process"), "{shown}{said}");
    assert!(shown.contains(") has ended\n") && shown.ends_with("then 69\n"), "{shown}{said}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_directory_with_a_broker_that_nobody_uses_can_be_removed() {
    let sandbox = Sandbox::new();
    let directory = sandbox.path("directory");
    let socket = directory.join("sock").to_str().unwrap().to_owned();
    for _ in 0..3 {
        fs::DirBuilder::new().mode(0o700).create(&directory).unwrap();
        assert_eq!(sandbox.code(&["run", "--socket", &socket, "db", "true"]), 0);
        let status = || -> serde_json::Value {
            let shown = sandbox.written(&["daemon", "status", "--json", "--socket", &socket]);
            serde_json::from_str(&shown).unwrap()
        };
        eventually("it has no client", || status()["clients"] == 0);
        let broker = format!("/proc/{}/exe", status()["pid"]);
        for file in fs::read_dir(&directory).unwrap().map(|file| file.unwrap().path()) {
            if file.is_dir() { fs::remove_dir_all(file) } else { fs::remove_file(file) }.unwrap();
        }
        // What a process has run can be read as long as it has not ended.
        eventually("the broker ends", || fs::read_link(&broker).is_err());
        // Files that have come back would not let it go.
        fs::remove_dir(&directory).unwrap();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_broker_has_nothing_open_of_its_starter_where_nothing_tells_what_is_open() {
    let sandbox = Sandbox::new();
    let script = r#"mount -t tmpfs none /proc && exec 7>&1 && "$NAVLOCK" daemon start >&2"#;
    let mut command = sandbox.program("unshare");
    command.args(["-rm", "sh", "-c", script]).env("NAVLOCK_BIN", absolute(NAVLOCK));
    // The output ends when no process has it open any more.
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output = finish(child);
    if output.stderr.contains("unshare") || output.stderr.contains("mount:") {
        println!("skipped: nothing can be mounted: {output:?}");
        return;
    }
    assert_eq!(output.code(), Some(0), "{output:?}");
    assert!(sandbox.broker().is_some(), "{output:?}");
}
