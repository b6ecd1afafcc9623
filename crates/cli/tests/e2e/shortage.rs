//! When there is too little of something: threads, room on disks.

use std::{
    fs,
    os::unix::{fs::MetadataExt, process::CommandExt},
    process::{Command, Stdio},
};

use crate::sandbox::{NAVLOCK, Sandbox, finish};

/// A user that nobody is.
const NOBODY: u32 = 54_713;

/// A test that only root can do says so where it cannot.
fn is_root(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: {test}: only root can set it up");
    }
    is_root
}

/// How many threads this user has.
fn threads_of(uid: u32) -> usize {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let owned = processes.filter(|process| {
        let name = process.file_name();
        let is_process = name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        is_process && process.metadata().is_ok_and(|metadata| metadata.uid() == uid)
    });
    let threads = owned.filter_map(|process| fs::read_dir(process.path().join("task")).ok());
    threads.map(Iterator::count).sum()
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_that_runs_is_not_killed_for_want_of_threads() {
    // Root may have as many as it wants.
    if !is_root("threads") {
        return;
    }
    let sandbox = Sandbox::new();
    std::os::unix::fs::chown(sandbox.path(""), Some(NOBODY), Some(NOBODY)).unwrap();
    // Where that user finds it.
    let program = sandbox.path("navlock");
    fs::copy(NAVLOCK, &program).unwrap();
    let as_nobody = |mut command: Command| {
        command.uid(NOBODY).gid(NOBODY).stdin(Stdio::null()).stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    };
    let mut first = sandbox.program(&program);
    first.args(["run", "db", "true"]);
    let first = as_nobody(first);
    assert!(first.status.success(), "{first:?}");
    // Its own thread, that of its connection, and the command.
    let most = threads_of(NOBODY) + 3;
    let mut scarce = sandbox.program("prlimit");
    scarce.arg(format!("--nproc={most}")).arg(&program);
    scarce.args(["run", "db", "sh", "-c", "exit 5"]);
    let output = as_nobody(scarce);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    // And with one less there is no command to begin with.
    let mut too_scarce = sandbox.program("prlimit");
    too_scarce.arg(format!("--nproc={}", most - 1)).arg(&program);
    too_scarce.args(["run", "db", "sh", "-c", "exit 5"]);
    let output = as_nobody(too_scarce);
    assert_eq!(output.status.code(), Some(126), "{output:?}");
}
