//! The workers of a run: starting the next one in the place of each that has ended.

use std::{env, fs::File, os::unix::process::CommandExt, path::PathBuf, process::Command};

use super::{OWNERS, Run, WORKERS};
use crate::{
    events::now,
    history::{Instance, Kind},
    options::Reach,
    owner::THREADS,
    worker::NAMES,
};

/// A worker that ends within so many microseconds without having worked has failed or was killed.
const BRIEFLY: u64 = 100_000;

/// By how much the start of the next worker is delayed then, in microseconds.
const RESTART_DELAY: u64 = 200_000;

impl Run<'_> {
    /// Starts a worker for each that has ended.
    pub(super) fn start_workers(&mut self) {
        // With etcd no client owns names.
        let has_owners = self.options.reach == Reach::Broker && self.options.has("owners");
        for slot in 0..if has_owners { WORKERS + OWNERS } else { WORKERS } {
            let current = self.history.instances.get(&self.workers[slot]);
            // A worker that fails at once does not keep the others from working by being started again and
            // again.
            let may_follow = |instance: &Instance| {
                instance.ended.is_some_and(|ended| {
                    let briefly = ended - instance.born < BRIEFLY && instance.command.is_none();
                    !briefly || ended + RESTART_DELAY < now()
                })
            };
            if current.is_none_or(may_follow) {
                self.workers[slot] = self.start_worker(slot);
            }
        }
    }

    fn start_worker(&mut self, slot: usize) -> u64 {
        let id = self.started;
        self.started += 1;
        let machine = slot % self.sandbox.machines.len();
        let (kind, mut command) = if self.options.breaks && slot == WORKERS - 1 {
            (Kind::Rogue, self.rogue(id, machine))
        } else if slot >= WORKERS {
            self.owner(id, machine, slot - WORKERS)
        } else if slot % 3 == 2 && self.options.has("clients") {
            (Kind::Client, self.client(id, machine))
        } else {
            self.navlock_run(id, machine)
        };
        let stderr = File::create(self.stderr(id)).expect("the disk of the logs has room");
        // Signals of a terminal are for us alone.
        #[expect(clippy::zombie_processes, reason = "`reap` waits for all children")]
        let child = command.stderr(stderr).process_group(0).spawn().expect("it can be started");
        let pid = i32::try_from(child.id()).expect("a process has a small number");
        let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
        let words: Vec<_> = words.collect();
        self.events.say(format_args!("born {id} {pid} m{machine} {}", words.join(" ")));
        self.by_pid.insert(pid, id);
        let instance = Instance {
            machine,
            kind,
            pid,
            born: now(),
            killed: None,
            is_told: false,
            stops: Vec::new(),
            command: None,
            command_killed: None,
            command_stops: Vec::new(),
            ended: None,
        };
        self.history.instances.insert(id, instance);
        id
    }

    fn work(&mut self) -> u64 {
        match self.dice.below(60) {
            // Longer than a broker waits for its clients.
            0 => self.dice.below(12_000),
            1..4 => self.dice.below(4000),
            4..14 => self.dice.below(500),
            _ => self.dice.below(25),
        }
    }

    fn navlock_run(&mut self, id: u64, machine: usize) -> (Kind, Command) {
        let mut names = vec![*self.dice.choose(&NAMES).expect("there are names")];
        if self.dice.chance(6) {
            names.push(*self.dice.choose(&NAMES).expect("there are names"));
            names.dedup();
        }
        let closes = self.dice.chance(6) && self.options.has("closes");
        let steals = self.dice.chance(150) && self.options.has("steals");
        // A worker that steals does not wait.
        let gives_up = if steals { 7 } else { self.dice.below(8) };
        let mut command = self.sandbox.navlock(machine, &["run"]);
        match gives_up {
            0 => _ = command.arg("-n"),
            1 => _ = command.args(["-w", "0.1"]),
            2 => _ = command.args(["-w", "5"]),
            _ => {}
        }
        if steals {
            command.arg("--steal");
        } else if self.dice.chance(2) {
            command.arg("--shared");
        }
        if closes {
            command.arg("--close");
        }
        if self.dice.chance(5) {
            command.arg("--on-lost=kill");
        }
        let (id, work) = (id.to_string(), self.work().to_string());
        for name in &names {
            command.args(["-l", name]);
        }
        command.arg("--");
        let in_shell = !closes && self.dice.chance(6) && self.options.has("shells");
        if in_shell {
            command.args(["sh", "-c", "\"$@\"; true", "sh"]);
        }
        command.arg(us()).args(["command", &id, &work]);
        if closes {
            command.arg("close");
        }
        if self.dice.chance(8) && self.options.has("stubborn") {
            command.arg("stubborn");
        }
        // The shell and the command may be gone while this one goes on.
        if in_shell && self.dice.chance(2) {
            command.arg("helper");
        }
        let names = names.into_iter().map(str::to_owned).collect();
        (Kind::Run { names, closes, steals, in_shell, may_give_up: gives_up < 3 }, command)
    }

    fn client(&mut self, id: u64, machine: usize) -> Command {
        let (seed, lifetime) = (self.dice.next().to_string(), self.dice.below(20_000).to_string());
        let mut command = self.sandbox.program(machine, &us());
        command.args(["client", &id.to_string(), &seed, &lifetime]);
        command
    }

    fn owner(&mut self, id: u64, machine: usize, nth: usize) -> (Kind, Command) {
        let seed = self.dice.next().to_string();
        let longest = if self.dice.chance(3) { 60_000 } else { 8000 };
        let lifetime = self.dice.below(longest);
        let mut command = self.sandbox.program(machine, &us());
        let place = (nth * THREADS).to_string();
        command.args(["owner", &id.to_string(), &seed, &lifetime.to_string(), &place]);
        if self.options.breaks && nth == OWNERS - 1 {
            command.arg("rogue");
            return (Kind::Rogue, command);
        }
        // As on a system where the shared memory cannot be mapped.
        let delegates = self.options.has("delegation") && !self.dice.chance(10);
        if !delegates {
            command.arg("plain");
        }
        (Kind::Owner { delegates }, command)
    }

    /// A worker that works without a lock.
    fn rogue(&mut self, id: u64, machine: usize) -> Command {
        let name = *self.dice.choose(&NAMES).expect("there are names");
        let work = self.dice.below(500).to_string();
        let mut command = self.sandbox.program(machine, &us());
        command.args(["command", &id.to_string(), &work]);
        // It acts like a worker that has kept an old token.
        command.env("NAVLOCK_NAME", name).env("NAVLOCK_MODE", "exclusive");
        command.env("NAVLOCK_FENCE", "1");
        command
    }
}

/// The path of this program.
fn us() -> PathBuf {
    env::current_exe().expect("this program is somewhere")
}
