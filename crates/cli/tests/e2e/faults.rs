//! A fault inside a broker that a client has started. Nobody reads this broker's error stream.

use std::{fs, path::PathBuf, process::Command};

use crate::sandbox::{Output, Sandbox, eventually, finish, write};

/// A library: while this file exists, waiting for events fails as on an invalid descriptor, and the broker panics.
const BREAK: &str = "
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout) {
    const char *file = getenv(\"NAVLOCK_TEST_BREAK\");
    if (file != NULL && access(file, F_OK) == 0) {
        errno = EBADF;
        return -1;
    }
    int (*next)(int, struct epoll_event *, int, int) = dlsym(RTLD_NEXT, \"epoll_wait\");
    return next(epoll, events, most, timeout);
}
";

/// What users are told of a broker after it has panicked.
struct Told {
    doctor: String,
    logs: Output,
    /// Beside the socket.
    beside: PathBuf,
    sandbox: Sandbox,
}

/// Makes a broker panic that a client has started, with this setting of the log, in a sandbox that `prepare`
/// has prepared.
fn broken(log: &str, prepare: impl FnOnce(&Sandbox)) -> Told {
    let sandbox = Sandbox::new();
    prepare(&sandbox);
    start_breakable(&sandbox, log);
    write(&sandbox.path("break"), "");
    // The broker sees that a client has come, and cannot wait for what the client says.
    let _ = finish(sandbox.start(&["daemon", "status"]));
    eventually("the broker has ended", || sandbox.broker().is_none());
    let doctor = sandbox.written(&["doctor"]);
    let logs = sandbox.output(&["daemon", "logs"]);
    assert!(logs.status.success(), "{logs:?}");
    Told { doctor, logs, beside: sandbox.path("sock.faults.log"), sandbox }
}

/// Starts a broker that panics once there is a file "break".
fn start_breakable(sandbox: &Sandbox, log: &str) {
    let (source, library) = (sandbox.path("break.c"), sandbox.path("break.so"));
    write(&source, BREAK);
    let compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .status();
    assert!(compiler.unwrap().success());
    let mut start = sandbox.navlock(&["daemon", "start"]);
    start.env("LD_PRELOAD", &library).env("NAVLOCK_TEST_BREAK", sandbox.path("break"));
    start.env("NAVLOCK_LOG", log).env("RUST_BACKTRACE", "0");
    assert!(start.status().unwrap().success());
}

#[test]
fn a_panic_of_a_broker_costs_no_client_its_lock() {
    let sandbox = Sandbox::new();
    start_breakable(&sandbox, "off");
    let mut holder = sandbox.hold(&["db"]);
    let broken = sandbox.broker();
    write(&sandbox.path("break"), "");
    let _ = finish(sandbox.start(&["daemon", "status"]));
    eventually("another broker has come", || {
        let next = sandbox.broker();
        next.is_some() && next != broken
    });
    assert_eq!(sandbox.answered(&["run", "-n", "db", "true"]), 1);
    assert!(!holder.has_ended());
    holder.release();
    fs::remove_file(sandbox.path("state/faults.log")).unwrap();
}

/// The message of the panic.
const SAID: &str = "the system tells which connections have something";

impl Told {
    fn logged(&self) -> String {
        self.logs.stdout.clone()
    }

    /// Checks that doctor and the logs both say in which file the fault is written down.
    fn is_told(&self, file: &PathBuf) {
        let is_it = |line: &str| line.contains(SAID) && line.contains(file.to_str().unwrap());
        let doctor =
            self.doctor.lines().filter(|line| line.starts_with("warn  faults: one error inside"));
        assert!(doctor.clone().count() == 1 && doctor.clone().all(is_it), "{}", self.doctor);
        assert!(self.logs.stderr.lines().any(is_it), "{:?}", self.logs);
        fs::remove_file(file).unwrap();
        assert!(!self.sandbox.written(&["doctor"]).contains("faults"));
    }
}

#[test]
fn a_fault_is_found_although_nothing_is_logged() {
    let told = broken("off", |_| {});
    assert_eq!(told.logged(), "");
    assert!(!told.beside.exists());
    told.is_told(&told.sandbox.path("state/faults.log"));
}

#[test]
fn a_fault_is_found_beside_the_socket_if_there_is_no_directory_for_state() {
    let told = broken("off", |sandbox| write(&sandbox.path("state"), "no directory"));
    assert_eq!(told.logged(), "");
    told.is_told(&told.beside);
}

#[test]
fn a_fault_is_in_the_log_as_well() {
    let told = broken("error", |_| {});
    let logged = told.logged();
    let is_it = |line: &str| line.contains(" ERROR navlock::broker: ") && line.contains(SAID);
    assert!(logged.lines().any(is_it), "{logged}");
    told.is_told(&told.sandbox.path("state/faults.log"));
}
