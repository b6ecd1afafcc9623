//! What is different on a terminal.

use std::{
    fs::File,
    io::{ErrorKind, Read, Write},
    os::{fd::AsFd, unix::process::ExitStatusExt},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{CWD, Mode, OFlags, fcntl_setfl, openat},
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::{
    sandbox::{NAVLOCK, Output, Sandbox, eventually, wait},
    worker::TIMEOUT,
};

/// A terminal, and the process that leads its session.
pub(crate) struct Terminal {
    /// This test's end. The terminal hangs up when it is closed.
    pub(crate) keys: Option<File>,
    pub(crate) leader: Child,
    pub(crate) seen: Vec<u8>,
}

impl Terminal {
    /// Runs `navlock` in front of a terminal with so many columns.
    pub(crate) fn run(sandbox: &Sandbox, columns: u16, arguments: &[&str]) -> Self {
        Self::run_program(sandbox, (columns, 24), &[&[NAVLOCK], arguments].concat())
    }

    /// Runs a program in front of a terminal with so many columns and rows.
    pub(crate) fn run_program(sandbox: &Sandbox, size: (u16, u16), line: &[&str]) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let path = ptsname(&ours, Vec::new()).unwrap();
        let how = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = File::from(openat(CWD, path, how, Mode::empty()).unwrap());
        resize(&ours, size);
        fcntl_setfl(&ours, OFlags::NONBLOCK).unwrap();
        let mut command: Command = sandbox.program("setsid");
        command
            .arg("--ctty")
            .args(line)
            .env("TERM", "xterm")
            .stdin(theirs.try_clone().unwrap())
            .stdout(theirs.try_clone().unwrap())
            .stderr(theirs);
        let leader = command.spawn().unwrap();
        Self { keys: Some(ours.into()), leader, seen: Vec::new() }
    }

    pub(crate) fn sees(&mut self, what: &str) {
        let since = Instant::now();
        while !self.look().contains(what) {
            assert!(since.elapsed() < TIMEOUT, "{what:?} is not seen in {:?}", self.look());
            thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// All that was seen so far.
    pub(crate) fn look(&mut self) -> String {
        let mut bytes = [0; 4096];
        let keys = self.keys.as_mut().unwrap();
        loop {
            match keys.read(&mut bytes) {
                Ok(0) => break,
                Ok(length) => self.seen.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The terminal has nothing to show, or no process has it open any more.
                Err(_) => break,
            }
        }
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    pub(crate) fn press(&mut self, key: &str) {
        self.keys.as_mut().unwrap().write_all(key.as_bytes()).unwrap();
    }
}

/// Gives a terminal another size, and tells the process in front of it.
pub(crate) fn resize(terminal: impl AsFd, (columns, rows): (u16, u16)) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.leader.kill();
        let _ = self.leader.wait();
    }
}

#[test]
fn a_wait_is_drawn_in_place_and_wiped_out() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let mut terminal = Terminal::run(&sandbox, 60, &["run", "db", "echo", "ran"]);
    let line = "\rnavlock: waiting for \"db\" (exclusive) ";
    eventually("it is drawn anew", || terminal.look().matches(line).count() >= 2);
    terminal.sees("s; held by ");
    holder.release();
    terminal.sees("\r\u{1b}[Kran\r\n");
    let seen = terminal.look();
    // The line has not been broken into two.
    assert_eq!(seen.matches('\n').count(), 1, "{seen:?}");
    let longest = seen.split(['\r', '\n']).map(|line| line.chars().count()).max().unwrap();
    assert!(longest < 60 + "\u{1b}[K".len(), "{seen:?}");
    assert!(wait(&mut terminal.leader).success());
}

#[test]
fn a_table_is_no_wider_than_the_terminal_and_has_colours() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&[&"n".repeat(100)]);
    let mut terminal = Terminal::run(&sandbox, 70, &["query"]);
    assert!(wait(&mut terminal.leader).success());
    // The last output may still be on its way.
    eventually("all lines are seen", || terminal.look().matches('\n').count() == 2);
    let seen = terminal.look();
    assert!(seen.contains("\u{1b}[32mheld\u{1b}[0m"), "{seen:?}");
    for line in seen.lines() {
        let plain =
            line.replace("\u{1b}[32m", "").replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
        assert!(plain.trim_end().chars().count() <= 70, "{plain:?}");
    }
    holder.release();
}

#[test]
fn a_watch_is_drawn_over_itself_until_it_is_interrupted() {
    let sandbox = Sandbox::new();
    let mut terminal = Terminal::run(&sandbox, 100, &["query", "--watch"]);
    terminal.sees("nothing is held and nobody waits");
    let holder = sandbox.hold(&["db"]);
    terminal.sees("\u{1b}[1F");
    terminal.sees("db");
    terminal.press("\u{3}");
    assert_eq!(wait(&mut terminal.leader).signal(), Some(2));
    holder.release();
}

#[test]
fn who_finds_nothing_is_led_to_other_buckets() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["--bucket", "other", "db"]);
    let hint = "nothing is held in the bucket \"default\" and nobody waits; 1 lock is held in another bucket: \
                --all-buckets shows it";
    Terminal::run(&sandbox, 200, &["query"]).sees(hint);
    let hint = "\"db\" is not held in the bucket \"default\" and nobody waits for it; 1 lock is held in another";
    Terminal::run(&sandbox, 200, &["query", "db"]).sees(hint);
    let none = "\"free\" is not held and nobody waits for it";
    Terminal::run(&sandbox, 200, &["query", "free"]).sees(none);
    let mut quiet = Terminal::run(&sandbox, 200, &["query", "-q"]);
    assert!(wait(&mut quiet.leader).success());
    assert_eq!(quiet.look(), "");
    holder.release();
}

#[test]
fn who_runs_sudo_is_told_at_a_terminal_whose_locks_these_are() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let sandbox = Sandbox::new();
    // The place of root, in a folder that nobody else sees.
    let script = "mount -t tmpfs none /run && exec env -u NAVLOCK_SOCKET SUDO_UID=4242 \"$@\"";
    let root = ["unshare", "--mount", "sh", "-c", script, "sh", NAVLOCK];
    let run = |words: &[&str]| {
        let mut terminal = Terminal::run_program(&sandbox, (200, 24), &[&root, words].concat());
        terminal.sees("ran");
        terminal.look()
    };
    let told = "navlock: sudo runs this as uid 0, which has other locks";
    assert!(run(&["run", "db", "echo", "ran"]).contains(told));
    assert!(!run(&["run", "-q", "db", "echo", "ran"]).contains("sudo"));
    let socket = sandbox.socket();
    let socket = socket.to_str().unwrap();
    assert!(!run(&["run", "--socket", socket, "db", "echo", "ran"]).contains("sudo"));
    let mut command = sandbox.navlock(&["run", "db", "true"]);
    let output = Output::of(command.env("SUDO_UID", "4242"));
    assert!(output.code() == Some(0) && output.stderr.is_empty(), "{output:?}");
}

/// A script that counts the signals that it gets, and prints the count when it is told to end. A shell heeds a
/// signal between two commands, and can miss one that comes just before it blocks in a command of its own. So
/// scripts with traps do not `read`.
const COUNTS: &str = "trap 'n=x$n; echo got' INT; trap 'echo passed on' USR1; trap 'echo counted $n.; exit 7' TERM; \
                      echo ready; while :; do sleep 0.01; done";

#[test]
fn an_interrupt_from_the_keyboard_reaches_the_command_once() {
    let sandbox = Sandbox::new();
    let mut terminal = Terminal::run(&sandbox, 80, &["run", "db", "sh", "-c", COUNTS]);
    terminal.sees("ready");
    // What comes while the command begins is passed on in any case. That is over now.
    kill_process(Pid::from_child(&terminal.leader), Signal::USR1).unwrap();
    terminal.sees("passed on");
    terminal.press("\u{3}");
    terminal.sees("got");
    // This signal is passed on after any other that would be.
    kill_process(Pid::from_child(&terminal.leader), Signal::TERM).unwrap();
    terminal.sees("counted x.");
    assert_eq!(wait(&mut terminal.leader).code(), Some(7));
}

#[test]
fn an_interrupt_from_the_keyboard_reaches_a_command_that_has_left_our_group() {
    let sandbox = Sandbox::new();
    let script = "trap 'exit 7' INT; echo ready; while :; do sleep 0.01; done";
    let mut terminal = Terminal::run(&sandbox, 80, &["run", "db", "setsid", "sh", "-c", script]);
    terminal.sees("ready");
    terminal.press("\u{3}");
    assert_eq!(wait(&mut terminal.leader).code(), Some(7));
}

#[test]
fn a_wait_in_the_background_is_not_stopped_by_what_it_says() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let script = "stty tostop; \"$NAVLOCK\" run db true & wait $!; echo ended with $?.";
    let mut terminal = Terminal::run_program(&sandbox, (80, 24), &["sh", "-mc", script]);
    terminal.sees("waiting for \"db\"");
    holder.release();
    terminal.sees("ended with 0.");
}

#[test]
fn a_terminal_that_hangs_up_ends_the_command() {
    let sandbox = Sandbox::new();
    let script = "trap 'exit 7' HUP; echo ready; while :; do sleep 0.01; done";
    let mut terminal = Terminal::run(&sandbox, 80, &["run", "db", "sh", "-c", script]);
    terminal.sees("ready");
    drop(terminal.keys.take());
    assert_eq!(wait(&mut terminal.leader).code(), Some(7));
    assert_eq!(sandbox.code(&["run", "-n", "db", "true"]), 0);
}
