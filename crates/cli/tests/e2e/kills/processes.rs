//! The processes that run, and those of them that are killed.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    path::PathBuf,
    process::{Child, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::{KILLED, NAMES, STOP, dice::Dice};
use crate::{
    sandbox::{Sandbox, eventually, wait},
    worker::{self, TIMEOUT, note},
};

/// How many processes of each kind there are at any time.
const CLIENTS: u64 = 8;
const COMMANDS: u64 = 8;

/// A process that may be killed.
struct Process {
    child: Child,
    /// Whether it is a `navlock run`.
    wraps: bool,
    state: PathBuf,
    /// The file of its error stream, which says why it failed.
    stderr: PathBuf,
    started: Instant,
    /// Its command was killed.
    command_was_killed: bool,
}

impl Process {
    fn state(&self) -> String {
        fs::read_to_string(&self.state).unwrap_or_default()
    }

    /// Fails with the process's error stream, unless the process has ended by itself and well.
    fn check_end(&self, status: ExitStatus) {
        assert!(
            status.success() || self.command_was_killed && status.code() == Some(128 + 9),
            "{status}, after {:?}: {}",
            self.started.elapsed(),
            fs::read_to_string(&self.stderr).unwrap()
        );
    }

    /// Whether it is a `navlock run` whose command is at work.
    fn runs_command(&self) -> bool {
        self.wraps && !self.command_was_killed && holds(&self.state())
    }

    fn kill(&mut self, sandbox: &Sandbox) {
        let state = self.state();
        note_kill(sandbox, if self.wraps { "wrapper" } else { "client" }, self.child.id(), &state);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// What is to be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Victim {
    /// The broker.
    Broker,
    /// The broker, and the next one while it takes over.
    Brokers,
    /// A client of the library that holds.
    Holder,
    /// A client of the library that waits, or a `navlock run` that waits.
    Waiter,
    /// A process that has just been started.
    JustStarted,
    /// A `navlock run` whose command goes on.
    Wrapper,
    /// A command whose `navlock run` goes on.
    Command,
    /// A `navlock run` and then its command, or the other way round.
    WrapperAndCommand,
    CommandAndWrapper,
    /// A command whose `navlock run` was killed before, and perhaps the broker after that.
    Orphan,
}

pub(super) const VICTIMS: [Victim; 10] = [
    Victim::Broker,
    Victim::Brokers,
    Victim::Holder,
    Victim::Waiter,
    Victim::JustStarted,
    Victim::Wrapper,
    Victim::Command,
    Victim::WrapperAndCommand,
    Victim::CommandAndWrapper,
    Victim::Orphan,
];

pub(super) struct Processes<'a> {
    sandbox: &'a Sandbox,
    pub(super) dice: Dice,
    running: Vec<Process>,
    pub(super) started: u64,
    pub(super) killed: BTreeMap<Victim, usize>,
}

impl<'a> Processes<'a> {
    pub(super) fn new(sandbox: &'a Sandbox, seed: u64) -> Self {
        let mut processes = Self {
            sandbox,
            dice: Dice(seed),
            running: Vec::new(),
            started: 0,
            killed: BTreeMap::new(),
        };
        for kind in 0..CLIENTS + COMMANDS {
            let process = processes.start(kind < COMMANDS);
            processes.running.push(process);
        }
        processes
    }

    fn start(&mut self, wraps: bool) -> Process {
        let file = format!("state.{}", self.started);
        let stderr = self.sandbox.path(&format!("stderr.{}", self.started));
        self.started += 1;
        let state = self.sandbox.path(&file);
        let mut command = if wraps {
            let name = NAMES[self.dice.below(NAMES.len())];
            let mode = if self.dice.chance(2) { "-s" } else { "-x" };
            let work = if self.dice.chance(5) { self.dice.below(500) } else { self.dice.below(30) };
            let mut command = self.sandbox.navlock(&["run", "-w", "30", mode, name, "--"]);
            command.arg(env::current_exe().unwrap()).args(worker::PLAY);
            worker::cast(&mut command, "kills::command", &format!("{file} {work}"));
            command
        } else {
            let seed = self.dice.next();
            worker::program(self.sandbox, "kills::client", &format!("{file} {seed}"))
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&stderr).unwrap());
        let child = command.spawn().unwrap();
        Process { child, wraps, state, stderr, started: Instant::now(), command_was_killed: false }
    }

    /// Starts a process in the place of each that has ended, and checks that each ended by itself.
    pub(super) fn replace_ended(&mut self) {
        for index in 0..self.running.len() {
            if let Some(status) = self.running[index].child.try_wait().unwrap() {
                self.running[index].check_end(status);
                self.replace(index);
            }
            let process = &self.running[index];
            let age = process.started.elapsed();
            assert!(!process.wraps || age < 2 * TIMEOUT, "a command waits for {age:?}");
        }
    }

    fn replace(&mut self, index: usize) {
        let wraps = self.running[index].wraps;
        self.running[index] = self.start(wraps);
    }

    /// Any process for which `is` holds.
    fn choose(&mut self, is: impl Fn(&Process) -> bool) -> Option<usize> {
        let suitable: Vec<_> =
            (0..self.running.len()).filter(|&index| is(&self.running[index])).collect();
        (!suitable.is_empty()).then(|| suitable[self.dice.below(suitable.len())])
    }

    /// Kills a process of this kind, if there is one.
    pub(super) fn kill(&mut self, victim: Victim) -> Option<()> {
        let killed = match victim {
            Victim::Broker => {
                self.kill_broker()?;
                1
            }
            Victim::Brokers => {
                let first = self.kill_broker()?;
                let is_next = || self.sandbox.broker().is_some_and(|next| next != first);
                eventually("there is another broker", is_next);
                self.dice.pass(25);
                1 + usize::from(self.kill_broker().is_some())
            }
            Victim::Holder => {
                self.kill_process(|process| !process.wraps && holds(&process.state()))?
            }
            Victim::Waiter => self.kill_process(|process| !holds(&process.state()))?,
            Victim::JustStarted => {
                self.kill_process(|process| process.started.elapsed() < Duration::from_millis(25))?
            }
            Victim::Wrapper => self.kill_process(Process::runs_command)?,
            Victim::Command => {
                let index = self.choose(Process::runs_command)?;
                let process = &mut self.running[index];
                process.command_was_killed = true;
                kill_command(&process.state(), self.sandbox)?;
                1
            }
            Victim::WrapperAndCommand | Victim::CommandAndWrapper => {
                let index = self.choose(Process::runs_command)?;
                let process = &mut self.running[index];
                if victim == Victim::CommandAndWrapper {
                    kill_command(&process.state(), self.sandbox);
                    process.kill(self.sandbox);
                } else {
                    process.kill(self.sandbox);
                    kill_command(&process.state(), self.sandbox);
                }
                self.replace(index);
                2
            }
            Victim::Orphan => {
                let index = self.choose(Process::runs_command)?;
                let process = &mut self.running[index];
                process.kill(self.sandbox);
                let state = process.state.clone();
                self.replace(index);
                let broker = self.dice.chance(2) && self.kill_broker().is_some();
                self.dice.pass(40);
                let state = fs::read_to_string(state).unwrap();
                1 + usize::from(broker) + usize::from(kill_command(&state, self.sandbox).is_some())
            }
        };
        *self.killed.entry(victim).or_default() += killed;
        Some(())
    }

    fn kill_broker(&self) -> Option<Pid> {
        let broker = self.sandbox.broker()?;
        note_kill(self.sandbox, "broker", broker.as_raw_nonzero().get().unsigned_abs(), "");
        // If this fails, the broker has ended.
        kill_process(broker, Signal::KILL).ok()?;
        Some(broker)
    }

    fn kill_process(&mut self, is: impl Fn(&Process) -> bool) -> Option<usize> {
        let index = self.choose(is)?;
        let process = &mut self.running[index];
        process.kill(self.sandbox);
        self.replace(index);
        Some(1)
    }

    /// Tells all processes to stop, and waits for their ends.
    pub(super) fn end(&mut self) {
        File::create(self.sandbox.path(STOP)).unwrap();
        for process in &mut self.running {
            let status = wait(&mut process.child);
            process.check_end(status);
        }
    }
}

impl Drop for Processes<'_> {
    fn drop(&mut self) {
        // This is also done when the test has failed.
        let _ = File::create(self.sandbox.path(STOP));
        for process in &mut self.running {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

fn holds(state: &str) -> bool {
    state.contains('h')
}

fn note_kill(sandbox: &Sandbox, what: &str, pid: u32, state: &str) {
    note(sandbox.path(KILLED), &format!("{what} {pid} {state}"));
}

/// Kills the command that has said this, unless it has ended.
fn kill_command(state: &str, sandbox: &Sandbox) -> Option<()> {
    let pid: i32 = state.strip_prefix('h')?.parse().ok()?;
    note_kill(sandbox, "command", pid.unsigned_abs(), state);
    kill_process(Pid::from_raw(pid)?, Signal::KILL).ok()
}
