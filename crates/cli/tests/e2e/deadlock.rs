//! Commands that wait for each other.

use std::{
    io::Write,
    process::{Child, Command, Stdio},
};

#[cfg(target_os = "linux")]
use navlock::blocking::block_on;
use rustix::process::Pid;

use crate::sandbox::{Lines, Sandbox, eventually, finish, write};
#[cfg(target_os = "linux")]
use crate::{
    sandbox::NAVLOCK,
    system::Signal,
    worker::{self, Worker},
};

/// A command under locks that begins once it is told to.
pub(crate) struct Participant(Child);

/// Says that the command has its locks, and goes on once there is a line to read.
const BEGIN: &str = "echo held; read line; ";

impl Participant {
    /// Starts a participant, which has its locks when this returns.
    pub(crate) fn new(sandbox: &Sandbox, arguments: &[&str], script: &str) -> Self {
        let mut command = sandbox.navlock(&["run"]);
        command.args(arguments).args(["sh", "-c", &format!("{BEGIN}{script}")]);
        Self::start(command)
    }

    /// Starts a script, which says by itself when it has its locks.
    #[cfg(target_os = "linux")]
    fn of(sandbox: &Sandbox, script: &str) -> Self {
        let mut command = sandbox.program("sh");
        command.args(["-c", script]);
        Self::start(command)
    }

    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = Lines::of(child.stdout.as_mut().unwrap()).next();
        assert_eq!(said.as_deref(), Some("held"));
        Self(child)
    }

    /// Lets it go on.
    pub(crate) fn go(&mut self) {
        self.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    }

    /// Lets it go on until it waits for something.
    pub(crate) fn go_and_wait(&mut self, sandbox: &Sandbox) {
        let before = sandbox.pending();
        self.go();
        eventually("it waits", || sandbox.pending() > before);
    }

    /// Waits until it has said this, and returns all that it has said.
    pub(crate) fn says(&mut self, what: &str) -> String {
        let mut said = String::new();
        for line in Lines::of(self.0.stderr.as_mut().unwrap()) {
            said += &(line + "\n");
            if said.contains(what) {
                return said;
            }
        }
        panic!("it has ended, and not said {what:?}: {said}");
    }

    /// The process of its `navlock run`.
    #[cfg_attr(
        not(feature = "etcd"),
        expect(dead_code, reason = "those on one machine end by themselves")
    )]
    pub(crate) fn wrapper(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    pub(crate) fn end(self) -> (Option<i32>, String) {
        let output = finish(self.0);
        (output.code(), output.stderr)
    }
}

impl Sandbox {
    /// Makes another deadlock, which has nothing to do with the rest and comes after it, and waits until it
    /// is reported.
    fn see_another_deadlock(&self) {
        let mut first = Participant::new(self, &["another"], "$NAVLOCK run third true");
        let last = "$NAVLOCK run --deadlock-exit-code 9 another true";
        let mut last = Participant::new(self, &["third"], last);
        first.go_and_wait(self);
        last.go();
        assert_eq!(last.end().0, Some(9));
        assert_eq!(first.end().0, Some(0));
    }
}

pub(crate) const DEADLOCK: &str =
    "deadlock: these wait for each other, and none goes on unless one of them ends";

#[test]
fn two_commands_that_wait_for_each_other_are_told_and_the_last_one_ends_if_it_is_to() {
    let sandbox = Sandbox::new();
    let mut first = Participant::new(&sandbox, &["a"], "$NAVLOCK run --why first b true");
    // The last one keeps its lock until the other one has reported the deadlock too.
    sandbox.pipe("gate");
    let last = "$NAVLOCK run --deadlock-exit-code 7 a true; code=$?; read line <gate; exit $code";
    let mut last = Participant::new(&sandbox, &["--why", "to see", "b"], last);
    first.go_and_wait(&sandbox);
    last.go();
    let told = first.says(&format!("navlock: {DEADLOCK}\n"));
    write(&sandbox.path("gate"), "go on\n");
    let (code, said) = last.end();
    assert_eq!(code, Some(7), "{said}");
    assert!(said.contains(&format!("navlock: \"a\": {DEADLOCK}\n")), "{said}");
    // The report says who has what since when and why, and who waits for it.
    let is_told = |who: &str, holds: &str, waits: &str| {
        said.lines().any(|line| {
            line.starts_with("  ")
                && line.contains(&format!("{who} holds \"{holds}\" (exclusive) for "))
                && line.contains(&format!("waits for \"{waits}\" (exclusive) for "))
        })
    };
    assert!(is_told("(to see)", "b", "a") && said.contains("(first) waits"), "{said}");
    // The other one gets what it has waited for.
    let (code, said) = first.end();
    let said = told + &said;
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches(&format!("navlock: {DEADLOCK}\n")).count(), 1, "{said}");
}

#[test]
fn a_command_that_is_to_end_in_a_deadlock_does_whoever_asked_last() {
    let sandbox = Sandbox::new();
    let [mut first, mut second] = [("a", "b", 7), ("b", "c", 8)].map(|(holds, wants, code)| {
        let wants = format!("$NAVLOCK run --deadlock-exit-code {code} {wants} true");
        Participant::new(&sandbox, &[holds], &wants)
    });
    let mut last = Participant::new(&sandbox, &["c"], "$NAVLOCK run a true");
    first.go_and_wait(&sandbox);
    second.go_and_wait(&sandbox);
    last.go();
    let (code, said) = second.end();
    assert_eq!(code, Some(8), "{said}");
    assert_eq!(first.end().0, Some(0));
    assert_eq!(last.end().0, Some(0));
}

/// The role of a program that holds a lock itself, and waits for a command that waits for it.
#[cfg(target_os = "linux")]
pub(crate) fn starts_a_command(options: &[&str]) {
    let held = block_on(worker::locks().lock("db")).unwrap();
    let mut command = Command::new(NAVLOCK);
    command.arg("run").args(options).args(["db", "true"]);
    let status = command.spawn().unwrap().wait().unwrap();
    worker::say(&format!("{:?}", status.code()));
    drop(held);
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_that_is_to_end_in_a_deadlock_ends_where_it_waits_for_the_program_that_has_started_it()
{
    let sandbox = Sandbox::new();
    let options = "--deadlock-exit-code 7";
    let mut program = Worker::start(&sandbox, "deadlock::starts_a_command", options);
    assert_eq!(program.read_line(), "Some(7)");
    program.ended();
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_that_waits_for_the_program_that_has_started_it_is_perhaps_in_a_deadlock() {
    let sandbox = Sandbox::new();
    let mut program = Worker::start(&sandbox, "deadlock::starts_a_command", "");
    eventually("it is told", || {
        let told = sandbox.written(&["query", "--tree"]);
        told.starts_with("possible deadlock") && told.contains("perhaps inside it")
    });
    program.signal(Signal::KILL);
    program.ended();
    eventually("the command has gone on", || sandbox.query().is_empty());
}

#[test]
fn three_commands_in_a_cycle_are_told_unless_they_are_to_be_quiet() {
    let sandbox = Sandbox::new();
    let mut quiet = Participant::new(&sandbox, &["a"], "$NAVLOCK run -q b true");
    // This one has several names, among them names before the one that it waits for.
    let mut several = Participant::new(&sandbox, &["b"], "$NAVLOCK run -l aa -l c true");
    sandbox.pipe("gate");
    let last = "$NAVLOCK run d $NAVLOCK run --deadlock-exit-code 7 a true; code=$?; read line <gate; exit $code";
    let mut last = Participant::new(&sandbox, &["c"], last);
    quiet.go_and_wait(&sandbox);
    several.go_and_wait(&sandbox);
    last.go();
    several.says(DEADLOCK);
    write(&sandbox.path("gate"), "go on\n");
    let (code, said) = last.end();
    assert_eq!(code, Some(7), "{said}");
    assert_eq!(said.matches("waits for").count(), 3, "{said}");
    let (code, said) = several.end();
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = quiet.end();
    assert_eq!((code, said.as_str()), (Some(0), ""));
}

#[test]
fn a_shared_lock_behind_somebody_who_wants_it_alone_is_a_deadlock() {
    let sandbox = Sandbox::new();
    let again = "$NAVLOCK run -s --deadlock-exit-code 7 a true";
    let mut reader = Participant::new(&sandbox, &["-s", "a"], again);
    let writer = sandbox.start(&["run", "a", "true"]);
    eventually("it waits", || sandbox.pending() > 0);
    reader.go();
    let (code, said) = reader.end();
    assert_eq!(code, Some(7), "{said}");
    assert!(said.contains(", behind the request of "), "{said}");
    assert!(finish(writer).status.success());
}

#[test]
fn a_broker_that_takes_over_knows_who_waits_for_whom() {
    let sandbox = Sandbox::new();
    let mut first = Participant::new(&sandbox, &["a"], "$NAVLOCK run b true");
    let last = "$NAVLOCK run --deadlock-exit-code 7 a true";
    let mut last = Participant::new(&sandbox, &["b"], last);
    first.go_and_wait(&sandbox);
    sandbox.replace_broker();
    last.go();
    assert_eq!(last.end().0, Some(7));
    assert_eq!(first.end().0, Some(0));
}

#[test]
#[cfg(target_os = "linux")]
fn two_scripts_wait_for_each_other_whatever_they_hold_their_locks_by() {
    let hold = "$NAVLOCK hold --while-pid $$ NAME >hold || exit; ";
    let run = "$NAVLOCK run NAME -- env -u NAVLOCK_INSIDE ";
    for (takes, asks) in [
        (hold, "$NAVLOCK hold --deadlock-exit-code CODE --while-pid $$ NAME"),
        (hold, "$NAVLOCK run --deadlock-exit-code CODE NAME true"),
        (run, "$NAVLOCK run --deadlock-exit-code CODE NAME true"),
    ] {
        let sandbox = Sandbox::new();
        let script = |first: &str, last: &str, code: &str| {
            let asks = asks.replace("NAME", last).replace("CODE", code);
            let asks = format!("{BEGIN}{asks}");
            let asks = if takes == run { format!("sh -c '{asks}'") } else { asks };
            takes.replace("NAME", first) + &asks
        };
        let mut first = Participant::of(&sandbox, &script("a", "b", "8"));
        let mut last = Participant::of(&sandbox, &script("b", "a", "7"));
        first.go_and_wait(&sandbox);
        last.go();
        let (code, said) = last.end();
        assert_eq!(code, Some(7), "{takes} {asks}: {said}");
        assert!(said.contains("deadlock"), "{said}");
        assert_eq!(first.end().0, Some(0), "{takes} {asks}");
    }
}

#[test]
fn a_cycle_that_ends_by_itself_or_that_nobody_has_told_is_no_deadlock() {
    let sandbox = Sandbox::new();
    // One of these two gives up by itself.
    let mut gives_up = Participant::new(&sandbox, &["a"], "$NAVLOCK run -w 60 b true");
    let mut waits = Participant::new(&sandbox, &["b"], "$NAVLOCK run a true");
    // No command waits for this one.
    let background = "NAVLOCK_INSIDE=none $NAVLOCK run d true";
    let mut background = Participant::new(&sandbox, &["c"], background);
    let mut waits_too = Participant::new(&sandbox, &["d"], "$NAVLOCK run c true");
    // A long chain, but no cycle; and a command that does not wait at all.
    let mut chain =
        Participant::new(&sandbox, &["e"], "$NAVLOCK run -n b true; $NAVLOCK run a true");
    let end = sandbox.start(&["run", "e", "true"]);
    for participant in [&mut gives_up, &mut waits, &mut background, &mut waits_too, &mut chain] {
        participant.go_and_wait(&sandbox);
    }
    sandbox.see_another_deadlock();
    // A theft breaks each of these cycles.
    assert_eq!(sandbox.code(&["run", "-q", "--steal", "b", "true"]), 0);
    assert_eq!(sandbox.code(&["run", "-q", "--steal", "d", "true"]), 0);
    let (code, said) = gives_up.end();
    assert_eq!((code, said.contains("deadlock")), (Some(0), false), "{said}");
    for participant in [waits, background, waits_too, chain] {
        let (_, said) = participant.end();
        assert!(!said.contains("deadlock"), "{said}");
    }
    assert!(finish(end).status.success());
}
