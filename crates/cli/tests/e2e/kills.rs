//! Processes are killed at random, of all kinds and in all phases. What the others have stays
//! theirs, and nobody waits for the dead.
//!
//! What is seen here is seen by locks of files that the kernel keeps, and of which navlock knows
//! nothing: whoever has a lock takes that of the name's witness, and must get it at once.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::FileExt,
    path::PathBuf,
    process::{self, Child, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use navlock::{Error, LockGuard, LockManager, Mode};
use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, Signal, kill_process},
};

use crate::{
    broker::brokers,
    sandbox::{NAVLOCK, Sandbox, eventually, wait},
    worker::{self, PATIENCE, note},
};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// How many processes of each kind there are at any time.
const CLIENTS: u64 = 8;
const COMMANDS: u64 = 8;

/// Where workers write what must not be.
const VIOLATIONS: &str = "violations";

/// Where it is written who was killed.
const KILLED: &str = "killed";

/// When this is there, nobody begins anything new.
const STOP: &str = "stop";

/// Numbers that look random and are the same in each run with the same seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap();
        usize::try_from(self.next() % end).unwrap()
    }

    fn chance(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    /// Time that passes, at most so many milliseconds.
    fn pass(&mut self, most: usize) {
        // Nothing is waited for: at which moments somebody is killed is what is tried.
        thread::sleep(Duration::from_micros(self.next() % (most as u64 * 1000)));
    }
}

/// What a holder is seen by: a file of the name that it locks, and one that it writes to.
struct Witness {
    name: &'static str,
    file: File,
    log: File,
}

impl Witness {
    fn open(name: &str) -> Self {
        let name = NAMES.into_iter().find(|known| *known == name).unwrap();
        let open = |what| {
            let path = format!("{name}.{what}");
            OpenOptions::new().create(true).read(true).append(true).open(path).unwrap()
        };
        Self { name, file: open("witness"), log: open("log") }
    }

    /// Works under the lock.
    fn see(&mut self, mode: Mode, token: &str, work: impl FnOnce()) {
        let before = self.log.metadata().unwrap().len();
        let lock = match mode {
            Mode::Shared => FlockOperation::NonBlockingLockShared,
            Mode::Exclusive => FlockOperation::NonBlockingLockExclusive,
        };
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = flock(&self.file, lock) {
            // A process that was killed has stopped, but the kernel closes its files in an order of
            // its own. It is told from one that lives in that it says no more.
            let mut since = vec![0; 1 << 16];
            let length = self.log.read_at(&mut since, before).unwrap();
            let since = String::from_utf8_lossy(&since[..length]);
            let is_other = |line: &&str| mode == Mode::Exclusive || line.contains("exclusive");
            let other = since.lines().find(is_other);
            if other.is_some() || Instant::now() > deadline {
                let (name, pid) = (self.name, process::id());
                let what = format!("{pid} holds {name} {mode} {token}, and {other:?}: {error}");
                note(VIOLATIONS, &what);
                return;
            }
            thread::yield_now();
        }
        self.say("begins", mode, token);
        work();
        self.say("ends", mode, token);
        // Not by closing it: a process that is being started may have a copy for a moment.
        flock(&self.file, FlockOperation::Unlock).unwrap();
    }

    fn say(&mut self, what: &str, mode: Mode, token: &str) {
        let line = format!("{what} {mode} {token} {}\n", process::id());
        // In one piece, so that it is whole whoever is killed.
        self.log.write_all(line.as_bytes()).unwrap();
    }
}

/// A file in which a process says what it is at: in the first byte whether it waits or holds, in
/// the next ones its number or what its other thread is at.
fn say_state(file: &File, at: u64, state: &str) {
    file.write_all_at(state.as_bytes(), at).unwrap();
}

/// The role of a process that uses the library: locks one name after the other, in one thread or
/// two.
pub(crate) fn client(words: &[&str]) {
    let [state, seed] = words else { panic!("{words:?}") };
    let seed: u64 = seed.parse().unwrap();
    let open = || NAMES.map(Witness::open);
    let (mine, others) = (open(), open());
    let state = &File::create(state).unwrap();
    let locks = &worker::locks();
    thread::scope(|scope| {
        if seed % 2 == 0 {
            scope.spawn(move || lock_one_after_the_other(locks, others, Dice(!seed), state, 1));
        }
        lock_one_after_the_other(locks, mine, Dice(seed), state, 0);
    });
}

fn lock_one_after_the_other(
    locks: &LockManager,
    mut witnesses: [Witness; NAMES.len()],
    mut dice: Dice,
    state: &File,
    at: u64,
) {
    let pid = process::id();
    while !fs::exists(STOP).unwrap() {
        let witness = &mut witnesses[dice.below(NAMES.len())];
        say_state(state, at, "w");
        let Some(guard) = lock(locks, witness.name, &mut dice) else {
            continue;
        };
        say_state(state, at, "h");
        let (mode, token) = (guard.mode(), guard.fencing_token().to_string());
        let most = if dice.chance(10) { 200 } else { 10 };
        witness.see(mode, &token, || dice.pass(most));
        if guard.is_lost() {
            note(VIOLATIONS, &format!("{pid} has lost {} {mode} {token}", witness.name));
        }
        drop(guard);
        say_state(state, at, "i");
        dice.pass(3);
    }
}

/// Asks for a lock in one of the ways in which that can be done.
fn lock(locks: &LockManager, name: &str, dice: &mut Dice) -> Option<LockGuard> {
    let request = locks.lock(name);
    let request = if dice.chance(2) { request.shared() } else { request };
    let (guard, may_fail) = match dice.below(8) {
        0 => {
            let guard = request.if_available().blocking_timeout(PATIENCE);
            (guard.map(|guard| guard.ok_or(Error::TimedOut)).and_then(|guard| guard), true)
        }
        // Aborts may cross grants.
        1 => (request.blocking_timeout(Duration::from_micros(dice.next() % 50_000)), true),
        _ => (request.blocking_timeout(PATIENCE), false),
    };
    match guard {
        Ok(guard) => Some(guard),
        Err(Error::TimedOut) if may_fail => None,
        Err(error) => {
            note(VIOLATIONS, &format!("{} cannot have {name}: {error}", process::id()));
            None
        }
    }
}

/// The role of what `navlock run` runs.
pub(crate) fn command(words: &[&str]) {
    let [state, milliseconds] = words else { panic!("{words:?}") };
    let [name, mode, token] =
        ["NAVLOCK_NAME", "NAVLOCK_MODE", "NAVLOCK_FENCE"].map(|name| env::var(name).unwrap());
    let mut witness = Witness::open(&name);
    let mode = if mode == "shared" { Mode::Shared } else { Mode::Exclusive };
    let state = File::create(state).unwrap();
    say_state(&state, 0, &format!("h{:010}", process::id()));
    let work = Duration::from_millis(milliseconds.parse().unwrap());
    // Nothing is waited for: this is the work, during which somebody is killed.
    witness.see(mode, &token, || thread::sleep(work));
    say_state(&state, 0, "e");
}

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
enum Victim {
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

const VICTIMS: [Victim; 10] = [
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

struct Population<'a> {
    sandbox: &'a Sandbox,
    dice: Dice,
    living: Vec<Mortal>,
    born: u64,
    killed: BTreeMap<Victim, usize>,
}

impl<'a> Population<'a> {
    fn new(sandbox: &'a Sandbox, seed: u64) -> Self {
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
    fn renew(&mut self) {
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
    fn kill(&mut self, victim: Victim) -> Option<()> {
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
    fn end(&mut self) {
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

/// Fails with what has happened so far, if somebody has seen what must not be.
fn check_violations(sandbox: &Sandbox) {
    let read = |file: &str| fs::read_to_string(sandbox.path(file)).unwrap_or_default();
    let violations = read(VIOLATIONS);
    if !violations.is_empty() {
        let logs = NAMES.map(|name| format!("{name}:\n{}", read(&format!("{name}.log"))));
        panic!("{violations}\nkilled:\n{}\nheld {}", read(KILLED), logs.join("\n"));
    }
}

/// Checks that every holder's token is larger than those of all before it from which the lock
/// came. How many holders there were.
fn check_tokens(log: &str) -> usize {
    let (mut exclusive, mut any) = (0, 0);
    let begins = || log.lines().filter_map(|line| line.strip_prefix("begins "));
    for line in begins() {
        let mut words = line.split(' ');
        let mode = words.next().unwrap();
        let token: u64 = words.next().unwrap().parse().unwrap();
        let before = if mode == "exclusive" { any } else { exclusive };
        assert!(token > before, "{line} after {before} in\n{log}");
        any = any.max(token);
        if mode == "exclusive" {
            exclusive = token;
        }
    }
    begins().count()
}

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |number| number.parse().unwrap())
}

#[test]
fn whoever_is_killed_the_others_keep_what_they_have_and_nobody_waits_for_the_dead() {
    let seed = number("NAVLOCK_TEST_SEED", 20_250_924);
    let kills = usize::try_from(number("NAVLOCK_TEST_KILLS", 240)).unwrap();
    println!("NAVLOCK_TEST_SEED={seed} NAVLOCK_TEST_KILLS={kills} {NAVLOCK}");
    let sandbox = Sandbox::new();
    let began = Instant::now();
    let mut population = Population::new(&sandbox, seed);
    while population.killed.values().sum::<usize>() < kills {
        population.renew();
        check_violations(&sandbox);
        // Not all are killed as often as they can be, or nobody would ever get anything done.
        let victim = VICTIMS[population.dice.below(VICTIMS.len())];
        if population.kill(victim).is_some() {
            let until = Instant::now() + Duration::from_millis(population.dice.next() % 200);
            while Instant::now() < until {
                population.renew();
                population.dice.pass(10);
            }
        }
    }
    println!("{:?} in {:?}", population.killed, began.elapsed());

    // Everybody who was left alive gets what it waits for, and ends.
    population.end();
    for name in NAMES {
        let witness = File::open(sandbox.path(&format!("{name}.witness"))).unwrap();
        eventually("the orphans end", || {
            flock(&witness, FlockOperation::NonBlockingLockExclusive).is_ok()
        });
    }
    eventually("all names are free", || sandbox.query().is_empty());
    for name in NAMES {
        assert_eq!(sandbox.code(&["run", "-n", name, "true"]), 0);
    }
    eventually("the dead leave nothing", || {
        fs::read_dir(sandbox.path("sock.clients")).unwrap().count() == 0
    });
    let broker = sandbox.broker().unwrap().as_raw_nonzero().to_string();
    assert_eq!(brokers(&sandbox), [broker]);
    check_violations(&sandbox);
    let logs = NAMES.map(|name| fs::read_to_string(sandbox.path(&format!("{name}.log"))).unwrap());
    let holders = logs.iter().map(|log| check_tokens(log)).sum::<usize>();
    println!("{holders} holders, {} processes", population.born);
    assert!(holders > kills, "{holders} holders only");
    for victim in VICTIMS {
        assert!(population.killed.contains_key(&victim), "{victim:?} was never killed");
    }
}

#[test]
fn who_died_between_two_brokers_leaves_nothing_though_neither_has_missed_it() {
    let sandbox = Sandbox::new();
    let holder = sandbox.hold(&["db"]);
    let clients = sandbox.path("sock.clients");
    let of_the_holder = fs::read_dir(&clients).unwrap().count();
    for extension in ["", ".locks", ".new"] {
        File::create(clients.join("7".repeat(32) + extension)).unwrap();
    }
    eventually("they are removed", || fs::read_dir(&clients).unwrap().count() == of_the_holder);
    holder.release();
}
