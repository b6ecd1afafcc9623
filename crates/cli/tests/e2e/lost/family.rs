use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

use rustix::process::test_kill_process;

use super::steal;
use crate::sandbox::{Sandbox, eventually, wait, write};

/// A daemon of the command. It does not end by SIGTERM, and has the kernel's lock of the file `oracle`.
const DAEMON: &str =
    "trap '' TERM; exec 9>oracle; flock -n 9 || exit 1; echo ready; exec sleep 600";

/// Whether no process has the lock of the file `oracle`.
fn is_free(sandbox: &Sandbox) -> bool {
    sandbox.program("flock").args(["-n", "oracle", "true"]).status().unwrap().success()
}

/// Writes to a named pipe, whether a process reads it or not.
fn send(pipe: &Path, text: &str) -> File {
    let mut file = File::options().read(true).write(true).open(pipe).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn all_that_it_has_started_is_ended_with_it_and_daemons_too() {
    let sandbox = Sandbox::new();
    write(&sandbox.path("daemon"), DAEMON);
    for (how, rest) in [
        // A child that the command waits for, and leaves behind when it is told to end.
        ("--on-lost=term", "sh daemon; true"),
        ("--on-lost=term", "(setsid sh daemon &); exec cat"),
        ("--on-lost=kill", "(setsid sh daemon &); trap '' TERM; while read line; do :; done"),
        // A child in a process group of its own, as jobs of a shell are.
        ("--on-lost=term", "set -m; sh daemon & wait"),
    ] {
        let script = format!("echo $$; {rest}");
        let mut victim = sandbox.hold_by(&[how, "--grace=0.2", "db"], &script);
        assert_eq!(victim.line(), "ready");
        steal(&sandbox);
        assert_eq!(victim.ended().code(), Some(75));
        assert!(is_free(&sandbox), "somebody works on after {rest:?}");
    }
}

#[test]
fn a_command_that_starts_processes_again_and_again_is_ended_with_them() {
    let sandbox = Sandbox::new();
    let script = "trap '' TERM; exec 9>oracle; flock -n 9; echo $$; \
                  i=0; while [ $i -lt 500 ]; do i=$((i+1)); (sleep 600 & sleep 600 &); done; sleep 600";
    let mut victim = sandbox.hold_by(&["--grace=0.1", "db"], script);
    steal(&sandbox);
    assert_eq!(victim.ended().code(), Some(75));
    assert!(is_free(&sandbox));
}

#[test]
fn a_process_that_the_command_started_may_end_in_its_own_time_within_the_grace() {
    let sandbox = Sandbox::new();
    sandbox.pipe("fifo");
    // The command itself ends at once.
    let script = "echo $$; sh -c 'trap \"read x <fifo; echo cleaned; exit\" TERM; echo ready; \
                  while :; do sleep 0.1; done' & wait";
    let mut victim = sandbox.hold_by(&["--grace=30", "db"], script);
    assert_eq!(victim.line(), "ready");
    steal(&sandbox);
    eventually("the command has ended", || test_kill_process(victim.command()).is_err());
    assert!(!victim.has_ended());
    let _pipe = send(&sandbox.path("fifo"), "go on\n");
    assert_eq!(victim.line(), "cleaned");
    assert_eq!(victim.ended().code(), Some(75));
}

#[test]
fn a_process_that_the_command_leaves_running_goes_on_when_the_command_ends_by_itself() {
    let sandbox = Sandbox::new();
    let fifo = sandbox.pipe("fifo");
    for script in ["cat <fifo >out & exit 3", "(setsid cat <fifo >out &); exit 3"] {
        // Its output is not read to the end: what is left running would keep it open.
        let status = sandbox.navlock(&["run", "db", "sh", "-c", script]).status().unwrap();
        assert_eq!(status.code(), Some(3));
        let pipe = send(&fifo, "still there\n");
        let out = || fs::read_to_string(sandbox.path("out")).unwrap_or_default();
        eventually("it works on", || out() == "still there\n");
        drop(pipe);
        write(&sandbox.path("out"), "");
    }
}

#[test]
fn an_orphaned_process_of_a_command_is_reaped() {
    let sandbox = Sandbox::new();
    let fifo = sandbox.pipe("fifo");
    let script = "(sh -c 'echo $$; read x <fifo' &); exec cat";
    let mut holder = sandbox.hold_by(&["db"], script);
    let left = holder.command().as_raw_nonzero().get();
    let parent = || {
        let status = fs::read_to_string(format!("/proc/{left}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        Some(line.trim().to_owned())
    };
    eventually("its parent has ended", || {
        parent() == Some(holder.wrapper().as_raw_nonzero().to_string())
    });
    let _pipe = send(&fifo, "go on\n");
    eventually("its end was noticed", || parent().is_none());
    assert!(!holder.has_ended());
    holder.let_go();
    assert!(holder.ended().success());
}

#[test]
fn a_process_from_before_the_command_is_not_ended_with_it() {
    let sandbox = Sandbox::new();
    let fifo = sandbox.pipe("fifo");
    let script = "cat <fifo >out & exec \"$NAVLOCK\" run --on-lost=kill db sleep 600";
    let mut shell = sandbox.program("sh").args(["-c", script]).spawn().unwrap();
    eventually("it holds", || sandbox.query() == ["held db exclusive"]);
    steal(&sandbox);
    assert_eq!(wait(&mut shell).code(), Some(75));
    let _pipe = send(&fifo, "still there\n");
    let out = || fs::read_to_string(sandbox.path("out")).unwrap_or_default();
    eventually("it works on", || out() == "still there\n");
}

#[test]
fn brokers_are_everybodys_and_outlive_who_has_started_them() {
    let [ours, other] = [(); 2].map(|()| Sandbox::new());
    let socket = other.socket();
    let script = format!(
        "NAVLOCK_SOCKET='{}' \"$NAVLOCK\" run x true; echo $$; exec sleep 600",
        socket.display()
    );
    // The wrapper starts the one broker, and the command the other.
    let mut victim = ours.hold_by(&["--on-lost=kill", "db"], &script);
    let brokers = [ours.broker(), other.broker()];
    assert!(brokers.iter().all(Option::is_some));
    steal(&ours);
    assert_eq!(victim.ended().code(), Some(75));
    assert_eq!([ours.broker(), other.broker()], brokers);
}
