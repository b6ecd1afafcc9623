//! What becomes of a command whose lock is lost.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    time::{Duration, Instant},
};

use crate::sandbox::{Sandbox, eventually, finish, wait};

/// The processes that the command has started, in whatever way.
#[cfg(target_os = "linux")]
mod family;

const STUBBORN: &str = "trap 'echo told' TERM; echo $$; while read line; do :; done; exit 3";

/// Whether the process has ended, even if nobody has waited for it yet.
#[cfg(target_os = "linux")]
pub(crate) fn has_ended(process: rustix::process::Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero()));
    status.map_or(true, |status| status.contains("State:\tZ"))
}

fn steal(sandbox: &Sandbox) {
    assert_eq!(sandbox.code(&["run", "--steal", "db", "true"]), 0);
}

#[test]
fn a_command_that_lost_its_lock_is_told_to_end_and_the_code_says_why() {
    let sandbox = Sandbox::new();
    // The code is the same even if the command ends in good order.
    let mut victim = sandbox
        .hold_by(&["db"], "trap 'echo told; exit 0' TERM; echo $$; exec 3<&0; cat <&3 & wait");
    steal(&sandbox);
    assert_eq!(victim.line(), "told");
    assert_eq!(victim.ended().code(), Some(75));
}

#[test]
fn a_command_that_does_not_end_is_killed_five_seconds_later() {
    let sandbox = Sandbox::new();
    // Neither the shell nor the program that it becomes ends by SIGTERM.
    let mut victim =
        sandbox.hold_by(&["--on-lost", "term", "db"], "trap '' TERM; echo $$; exec cat");
    let robbed = std::time::Instant::now();
    steal(&sandbox);
    assert_eq!(victim.ended().code(), Some(75));
    assert!(robbed.elapsed().as_secs() >= 4);
}

#[test]
fn a_command_is_killed_at_once_if_the_option_says_kill() {
    let sandbox = Sandbox::new();
    let mut victim = sandbox.hold_by(&["--on-lost=kill", "db"], STUBBORN);
    steal(&sandbox);
    assert_eq!(victim.ended().code(), Some(75));
    assert_eq!(victim.line(), "", "it was told before");
}

#[test]
fn a_command_goes_on_if_the_option_says_ignore_and_its_own_code_counts() {
    let sandbox = Sandbox::new();
    let mut victim = sandbox.hold_by(&["--on-lost", "ignore", "db"], STUBBORN);
    steal(&sandbox);
    // The command has lost the lock and nothing else.
    assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 0);
    victim.let_go();
    assert_eq!(victim.ended().code(), Some(3));
}

#[test]
fn a_loss_is_told_when_it_happens() {
    let sandbox = Sandbox::new();
    sandbox.pipe("fifo");
    for (how, becomes) in [
        ("term", "the command is told to end"),
        ("kill", "the command is killed"),
        ("ignore", "the command goes on"),
    ] {
        let script = "echo >begun; read x <fifo";
        let mut victim = sandbox.start(&["run", "--on-lost", how, "db", "sh", "-c", script]);
        eventually("it runs", || sandbox.path("begun").exists());
        std::fs::remove_file(sandbox.path("begun")).unwrap();
        steal(&sandbox);
        let (mut said, mut stderr) = (String::new(), BufReader::new(victim.stderr.take().unwrap()));
        if how == "ignore" {
            // The command goes on until the loss was told.
            stderr.read_line(&mut said).unwrap();
            crate::sandbox::write(&sandbox.path("fifo"), "go on\n");
        }
        finish(victim);
        stderr.read_to_string(&mut said).unwrap();
        let expected = format!("\"db\": the lock was stolen by another request; {becomes}\n");
        assert!(said.contains(&expected), "{how}: {said}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_loss_before_the_commands_end_counts_however_late_both_are_heard_of() {
    let sandbox = Sandbox::new();
    for _ in 0..10 {
        let mut victim = sandbox.hold(&["db"]);
        victim.stop();
        steal(&sandbox);
        victim.let_go();
        eventually("the command has ended", || has_ended(victim.command()));
        victim.signal(rustix::process::Signal::CONT);
        assert_eq!(victim.ended().code(), Some(75));
    }
}

#[test]
fn a_waiter_whose_messages_nobody_reads_is_not_held_up() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let (_unread, full) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    while (&full).write(&[b'.'; 4096]).is_ok() {}
    full.set_nonblocking(false).unwrap();
    let mut waiter = sandbox.navlock(&["run", "db", "true"]);
    let mut waiter = waiter.stderr(OwnedFd::from(full)).spawn().unwrap();
    // Wait until the command has something to say.
    let since = Instant::now();
    eventually("it has waited", || since.elapsed() > Duration::from_millis(1600));
    holder.release();
    assert!(wait(&mut waiter).success());
}
