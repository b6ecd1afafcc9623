//! The same with commands: what has ended, or has been told to somebody, is seen by the next command.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdin, Command, Stdio},
};

use nix::{
    sys::{
        prctl::set_child_subreaper,
        signal::{Signal::SIGKILL, kill},
        wait::waitpid,
    },
    unistd::Pid,
};

use super::{AHEAD, has_clocks, noise::Noise};
use crate::{
    sandbox::{NAVLOCK, Output, Sandbox, wait},
    system::{HELD, Signal},
    worker::{self, TIMEOUT, Worker},
};

/// How often each pair of commands is run. A command takes up to 30 ms.
const ROUNDS: usize = 100;

/// A sandbox in which two clients make noise, and commands of any clock.
struct Commands {
    sandbox: Sandbox,
    noise: [Worker; 2],
    has_clocks: bool,
}

impl Commands {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let mut noise = [(); 2].map(|()| Worker::start(&sandbox, "order::make_noise", ""));
        for one in &mut noise {
            one.read_line();
        }
        let has_clocks = has_clocks();
        if !has_clocks {
            println!("skipped: clocks that are ahead, because unshare is refused");
        }
        Self { sandbox, noise, has_clocks }
    }

    /// The next command. In every fourth round its clock is ahead.
    fn output(&self, round: usize, arguments: &[&str]) -> Output {
        let mut command = self.sandbox.navlock(arguments);
        if self.has_clocks && round % 4 == 3 {
            command = self.sandbox.program("unshare");
            command.args(AHEAD).arg(NAVLOCK).args(arguments);
        }
        Output::of(&mut command)
    }

    fn is_available(&self, round: usize, arguments: &[&str]) -> bool {
        let output = self.output(round, &[&["run", "-n", "-q"], arguments, &["true"]].concat());
        assert!(matches!(output.code(), Some(0 | 1)), "{output:?}");
        output.code() == Some(0)
    }

    /// Whether a lock or a request of the name `x` is shown, as `held` or `pending`.
    fn shows(&self, round: usize, state: &str) -> bool {
        let output = self.output(round, &["query", "--json", "x"]);
        assert!(output.status.success(), "{output:?}");
        output.stdout.contains(&format!("\"state\":\"{state}\""))
    }

    /// Asserts that this is seen in every round.
    fn assert_seen(mut self, is_seen: impl Fn(&Self, usize) -> bool) {
        let wrong = (0..ROUNDS).filter(|&round| !is_seen(&self, round)).count();
        self.noise.iter_mut().for_each(Worker::kill);
        assert_eq!(wrong, 0, "{wrong} of {ROUNDS} wrong");
    }
}

/// The role of a client whose threads take locks as long as it lives.
pub(crate) fn make_noise(_: &[&str]) {
    Noise::Threads.begin(&worker::connected().0);
    worker::say("makes noise");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_lock_is_available_when_the_command_under_it_has_ended() {
    Commands::new().assert_seen(|commands, round| {
        assert_eq!(commands.sandbox.code(&["run", "x", "true"]), 0);
        commands.is_available(round, &["x"])
    });
}

#[test]
fn a_lock_of_a_script_is_seen_until_its_release_and_not_after() {
    Commands::new().assert_seen(|commands, round| {
        let held = commands.sandbox.written(&["hold", "--ttl", "1h", "x"]);
        let is_held = if round % 2 == 0 {
            commands.shows(round, "held")
        } else {
            !commands.is_available(round, &["x"])
        };
        assert_eq!(commands.sandbox.code(&["release", &held]), 0);
        let is_held_after = if round % 2 == 0 {
            !commands.is_available(round, &["x"])
        } else {
            commands.shows(round, "held")
        };
        is_held && !is_held_after
    });
}

#[test]
fn a_lock_is_seen_when_the_command_under_it_has_begun() {
    Commands::new().assert_seen(|commands, round| {
        let mut holder = commands.sandbox.wait_for(&["x"]);
        holder.begun();
        let is_seen = if round % 2 == 0 {
            commands.shows(round, "held")
        } else {
            !commands.is_available(round, &["x"])
        };
        holder.release();
        is_seen
    });
}

#[test]
fn a_command_that_was_ended_while_it_waited_stands_in_nobodys_way_and_is_not_shown() {
    Commands::new().assert_seen(|commands, round| {
        let mut reader = commands.sandbox.wait_for(&["-s", "x"]);
        reader.begun();
        let mut writer = commands.sandbox.wait_for(&["x"]);
        crate::sandbox::eventually("it waits", || commands.shows(0, "pending"));
        writer.signal(if round % 3 == 0 { Signal::KILL } else { Signal::TERM });
        writer.ended();
        let is_gone = if round % 2 == 0 {
            !commands.shows(round, "pending")
        } else {
            commands.is_available(round, &["-s", "x"])
        };
        reader.release();
        is_gone
    });
}

/// A `navlock run` of this process, and its command, which is this process's child when the wrapper has ended.
struct Run {
    wrapper: Child,
    command: Pid,
    /// The command ends when this is closed. It is not left in `wrapper`, whose `wait` would close it.
    _hold: Option<ChildStdin>,
}

impl Run {
    fn start() -> Self {
        let mut command = Command::new(NAVLOCK);
        command.args(["run", "x"]).args(HELD).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut wrapper = command.spawn().unwrap();
        let hold = wrapper.stdin.take();
        let mut line = String::new();
        BufReader::new(wrapper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let command = Pid::from_raw(line.trim().parse().unwrap());
        Self { wrapper, command, _hold: hold }
    }

    fn kill_wrapper(&mut self) {
        self.wrapper.kill().unwrap();
        self.wrapper.wait().unwrap();
    }

    /// Kills both, and waits until both have ended.
    fn kill(&mut self) {
        self.wrapper.kill().unwrap();
        kill(self.command, SIGKILL).unwrap();
        self.wrapper.wait().unwrap();
        waitpid(self.command, None).unwrap();
    }
}

/// The role of a process that has `navlock run` killed, with its command or before it, and then asks. Orphans are
/// children of this process, so that it can wait for them.
pub(crate) fn kills(_: &[&str]) {
    set_child_subreaper(true).unwrap();
    let locks = worker::locks();
    let is_available = |round: usize| {
        if round % 2 == 0 {
            return locks.lock("x").if_available().blocking_timeout(TIMEOUT).unwrap().is_some();
        }
        let command = Command::new(NAVLOCK).args(["run", "-n", "-q", "x", "true"]).spawn();
        wait(&mut command.unwrap()).success()
    };
    let (mut wrong, mut early) = (0, 0);
    for round in 0..ROUNDS {
        let mut run = Run::start();
        if round / 2 % 2 == 0 {
            // The command is killed last: until then it has the lock, by what it has inherited.
            run.kill_wrapper();
            early += usize::from(is_available(round));
        }
        run.kill();
        wrong += usize::from(!is_available(round));
    }
    worker::say(&format!("{wrong} late, {early} early"));
}

#[test]
fn a_lock_is_available_when_the_command_under_it_was_killed_and_no_earlier() {
    let commands = Commands::new();
    let mut killer = Worker::start(&commands.sandbox, "order::kills", "");
    assert_eq!(killer.read_line(), "0 late, 0 early", "of {ROUNDS}");
    assert!(killer.ended().success());
}
