//! What processes do to a file under a lock, and in which order they get the lock.

use std::{
    fs::{self, File},
    io::Write,
};

use crate::{
    sandbox::{Holder, Sandbox, write},
    worker::{self, TIMEOUT, Worker, note},
};

/// The lines of the file that readers find whole.
const LINES: usize = 2000;

/// The role of a process that counts in a file, where others count too.
pub(crate) fn count(words: &[&str]) {
    let locks = worker::locks();
    for _ in 0..words[0].parse().unwrap() {
        let guard = locks.lock("counter").blocking_timeout(TIMEOUT).unwrap();
        let last: u64 = fs::read_to_string("counter").unwrap().trim().parse().unwrap();
        note("log", &(last + 1).to_string());
        fs::write("counter", (last + 1).to_string()).unwrap();
        drop(guard);
    }
}

/// The role of a process that writes a file anew, piece by piece.
pub(crate) fn writer(words: &[&str]) {
    let locks = worker::locks();
    for round in 0..words[0].parse().unwrap() {
        let guard = locks.lock("text").blocking_timeout(TIMEOUT).unwrap();
        let mut file = File::create("text").unwrap();
        let line = format!("{} {round}\n", std::process::id());
        for _ in 0..LINES / 100 {
            file.write_all(line.repeat(100).as_bytes()).unwrap();
        }
        drop(guard);
    }
}

/// The role of a process that reads what the writers write.
pub(crate) fn reader(words: &[&str]) {
    let locks = worker::locks();
    for _ in 0..words[0].parse().unwrap() {
        let guard = locks.lock("text").shared().blocking_timeout(TIMEOUT).unwrap();
        let text = fs::read_to_string("text").unwrap();
        drop(guard);
        let first = text.lines().next().unwrap();
        assert!(text.lines().all(|line| line == first), "{text}");
        assert_eq!(text.lines().count(), LINES);
    }
}

fn play(sandbox: &Sandbox, roles: &[(&str, &str)]) {
    let workers: Vec<_> =
        roles.iter().map(|(role, rounds)| Worker::start(sandbox, role, rounds)).collect();
    for mut worker in workers {
        assert!(worker.ended().success());
    }
}

#[test]
fn eight_processes_add_500_lines_each_and_none_is_lost_or_out_of_order() {
    let sandbox = Sandbox::new();
    write(&sandbox.path("counter"), "0");
    play(&sandbox, &[("exclusion::count", "500"); 8]);
    assert_eq!(fs::read_to_string(sandbox.path("counter")).unwrap(), "4000");
    let log = fs::read_to_string(sandbox.path("log")).unwrap();
    assert!(log.lines().eq((1..=4000).map(|line| line.to_string())), "{log}");
}

#[test]
fn readers_see_only_whole_writes() {
    let sandbox = Sandbox::new();
    write(&sandbox.path("text"), &"0\n".repeat(LINES));
    let (writer, reader) = (("exclusion::writer", "200"), ("exclusion::reader", "400"));
    play(&sandbox, &[writer, reader, reader, reader, writer, reader]);
}

#[test]
fn readers_in_a_row_are_let_in_together_and_writers_alone_in_the_order_of_all() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let mut waiting = Vec::new();
    for mode in ["-s", "-s", "-x", "-s", "-x"] {
        waiting.push(sandbox.queue(&[mode, "db"]));
    }
    let [mut first, mut second, mut third, mut fourth, mut fifth] =
        <[Holder; 5]>::try_from(waiting).ok().unwrap();
    holder.release();
    first.begun();
    second.begun();
    let held = ["held db shared", "held db shared"];
    let pending = ["pending db exclusive", "pending db shared", "pending db exclusive"];
    assert_eq!(sandbox.query(), [&held[..], &pending].concat());
    first.release();
    assert_eq!(sandbox.query(), [&held[1..], &pending].concat());
    second.release();
    third.begun();
    assert_eq!(sandbox.query(), [&["held db exclusive"], &pending[1..]].concat());
    third.release();
    fourth.begun();
    assert_eq!(sandbox.query(), ["held db shared", "pending db exclusive"]);
    fourth.release();
    fifth.begun();
    fifth.release();
}

#[test]
#[cfg(unix)]
fn a_waiter_behind_an_interrupted_waiter_goes_on() {
    use std::os::unix::process::ExitStatusExt;

    use crate::{sandbox::eventually, system::Signal};
    let sandbox = Sandbox::new();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let holder = sandbox.hold(&["-s", "db"]);
        let mut writer = sandbox.wait_for(&["db"]);
        eventually("the writer waits", || sandbox.query().len() == 2);
        let mut reader = sandbox.wait_for(&["-s", "db"]);
        eventually("the reader waits", || sandbox.query().len() == 3);
        writer.signal(signal);
        reader.begun();
        assert_eq!(writer.ended().signal(), Some(signal.as_raw()));
        assert_eq!(sandbox.query(), ["held db shared", "held db shared"]);
        reader.release();
        holder.release();
    }
}
