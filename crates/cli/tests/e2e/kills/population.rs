//! Who lives, and who is killed.

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
    worker::{self, PATIENCE, note},
};

/// How many processes of each kind there are at any time.
const CLIENTS: u64 = 8;
const COMMANDS: u64 = 8;

/// A process that may be killed.
struct Mortal {
    child: Child,
    /// Whether it is a `navlock run`.
    wraps: bool,
    state: PathBuf,
    /// What it has to say, such as why it has failed.
    stderr: PathBuf,
    born: Instant,
    /// Its command was killed.
    bereft: bool,
}

impl Mortal {
    fn state(&self) -> String {
        fs::read_to_string(&self.state).unwrap_or_default()
    }

    /// Fails with what it had to say, unless it has ended by itself and well.
    fn check_end(&self, status: ExitStatus) {
        assert!(
            status.success() || self.bereft && status.code() == Some(128 + 9),
            "{status}, after {:?}: {}",
            self.born.elapsed(),
            fs::read_to_string(&self.stderr).unwrap()
        );
    }

    /// Whether it is a `navlock run` whose command is at work.
    fn commands(&self) -> bool {
        self.wraps && !self.bereft && holds(&self.state())
    }

    fn kill(&mut self, sandbox: &Sandbox) {
        let state = self.state();
        note_kill(sandbox, if self.wraps { "wrapper" } else { "client" }, self.child.id(), &state);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Who is to be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Victim {
    /// The broker.
    Broker,
    /// The broker, and the next one while it takes over.
    Brokers,
    /// A client of the library that holds.
    Holder,
    /// One that waits, or a `navlock run` that does.
    Waiter,
    /// Anybody who has just been started.
    Newborn,
    /// A `navlock run` whose command goes on.
    Wrapper,
    /// A command whose `navlock run` goes on.
    Command,
    /// One and then the other.
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
    Victim::Newborn,
    Victim::Wrapper,
    Victim::Command,
    Victim::WrapperAndCommand,
    Victim::CommandAndWrapper,
    Victim::Orphan,
];

pub(super) struct Population<'a> {
    sandbox: &'a Sandbox,
    pub(super) dice: Dice,
    living: Vec<Mortal>,
    pub(super) born: u64,
    pub(super) killed: BTreeMap<Victim, usize>,
}

impl<'a> Population<'a> {
    pub(super) fn new(sandbox: &'a Sandbox, seed: u64) -> Self {
        let mut population = Self {
            sandbox,
            dice: Dice(seed),
            living: Vec::new(),
            born: 0,
            killed: BTreeMap::new(),
        };
        for kind in 0..CLIENTS + COMMANDS {
            let mortal = population.give_birth(kind < COMMANDS);
            population.living.push(mortal);
        }
        population
    }

    fn give_birth(&mut self, wraps: bool) -> Mortal {
        let file = format!("state.{}", self.born);
        let stderr = self.sandbox.path(&format!("stderr.{}", self.born));
        self.born += 1;
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
        Mortal { child, wraps, state, stderr, born: Instant::now(), bereft: false }
    }

    /// Replaces those who have ended, which must have been by themselves.
    pub(super) fn renew(&mut self) {
        for index in 0..self.living.len() {
            if let Some(status) = self.living[index].child.try_wait().unwrap() {
                self.living[index].check_end(status);
                self.replace(index);
            }
            let mortal = &self.living[index];
            let age = mortal.born.elapsed();
            assert!(!mortal.wraps || age < 2 * PATIENCE, "a command waits for {age:?}");
        }
    }

    fn replace(&mut self, index: usize) {
        let wraps = self.living[index].wraps;
        self.living[index] = self.give_birth(wraps);
    }

    /// Any of those of whom this is true.
    fn choose(&mut self, is: impl Fn(&Mortal) -> bool) -> Option<usize> {
        let suitable: Vec<_> =
            (0..self.living.len()).filter(|&index| is(&self.living[index])).collect();
        (!suitable.is_empty()).then(|| suitable[self.dice.below(suitable.len())])
    }

    /// Kills somebody, if there is anybody of this kind.
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
                self.kill_process(|mortal| !mortal.wraps && holds(&mortal.state()))?
            }
            Victim::Waiter => self.kill_process(|mortal| !holds(&mortal.state()))?,
            Victim::Newborn => {
                self.kill_process(|mortal| mortal.born.elapsed() < Duration::from_millis(25))?
            }
            Victim::Wrapper => self.kill_process(Mortal::commands)?,
            Victim::Command => {
                let index = self.choose(Mortal::commands)?;
                let mortal = &mut self.living[index];
                mortal.bereft = true;
                kill_command(&mortal.state(), self.sandbox)?;
                1
            }
            Victim::WrapperAndCommand | Victim::CommandAndWrapper => {
                let index = self.choose(Mortal::commands)?;
                let mortal = &mut self.living[index];
                if victim == Victim::CommandAndWrapper {
                    kill_command(&mortal.state(), self.sandbox);
                    mortal.kill(self.sandbox);
                } else {
                    mortal.kill(self.sandbox);
                    kill_command(&mortal.state(), self.sandbox);
                }
                self.replace(index);
                2
            }
            Victim::Orphan => {
                let index = self.choose(Mortal::commands)?;
                let mortal = &mut self.living[index];
                mortal.kill(self.sandbox);
                let state = mortal.state.clone();
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
        // It has ended, if not.
        kill_process(broker, Signal::KILL).ok()?;
        Some(broker)
    }

    fn kill_process(&mut self, is: impl Fn(&Mortal) -> bool) -> Option<usize> {
        let index = self.choose(is)?;
        let mortal = &mut self.living[index];
        mortal.kill(self.sandbox);
        self.replace(index);
        Some(1)
    }

    /// Waits for the end of all who live, which is not far.
    pub(super) fn end(&mut self) {
        File::create(self.sandbox.path(STOP)).unwrap();
        for mortal in &mut self.living {
            let status = wait(&mut mortal.child);
            mortal.check_end(status);
        }
    }
}

impl Drop for Population<'_> {
    fn drop(&mut self) {
        // Also when the test has failed.
        let _ = File::create(self.sandbox.path(STOP));
        for mortal in &mut self.living {
            let _ = mortal.child.kill();
            let _ = mortal.child.wait();
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
