//! What the tortured processes do.

use std::{
    env, fs,
    os::unix::process::parent_id,
    path::{Path, PathBuf},
    process::{self, Command, ExitCode},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use navlock::{
    BrokerReach, ConnectOptions, Error, LockGuard, LockManager, Mode, UserAgent,
    blocking::block_on_timeout,
};

use crate::{
    dice::Dice,
    events::{Events, directory},
    witness::{Holder, Witness},
};

/// While a file of this name is among the logs, no worker begins anything new.
pub(crate) const STOP: &str = "stop";

/// The names that are locked.
pub(crate) const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// How long a piece of work is, after which a worker looks around.
const PIECE: Duration = Duration::from_millis(5);

/// How long a worker of the library waits for anything.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A worker that was away for longer than `AWAY` looks again for `LINGER` whether it has lost.
const AWAY: Duration = Duration::from_secs(5);
const LINGER: Duration = Duration::from_secs(3);

/// What `navlock run` runs: `command INSTANCE MILLISECONDS [close|stubborn|helper]…`.
pub(crate) fn command(words: &[&str]) -> ExitCode {
    let [instance, milliseconds, ref how @ ..] = *words else { panic!("{words:?}") };
    let directory = directory();
    if how.contains(&"stubborn") {
        // A signal whose flag nobody reads is ignored.
        let ignored = signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::default());
        ignored.expect("a signal can be caught");
    }
    let events = Events::open(&directory).expect("the logs are there");
    let parent = parent_id();
    events.say(format_args!("command {instance} {} {parent}", process::id()));
    let told = |name| env::var(name).expect("navlock run tells its command");
    let [names, mode, tokens] = ["NAVLOCK_NAME", "NAVLOCK_MODE", "NAVLOCK_FENCE"].map(told);
    let mode = if mode == "shared" { Mode::Shared } else { Mode::Exclusive };
    let holders = names.lines().zip(tokens.lines()).map(|(name, token)| {
        let holder = Holder { instance, name: name.to_owned(), mode, token: token.to_owned() };
        Witness::begin(&directory, &events, holder)
    });
    let mut holders: Vec<_> = holders.collect();
    if how.contains(&"helper") {
        start_helper(&holders, milliseconds);
    }
    let work = Duration::from_millis(milliseconds.parse().expect("a number of milliseconds"));
    let began = Instant::now();
    while began.elapsed() < work {
        // Nothing is waited for: this is the work, during which processes are disturbed.
        thread::sleep(PIECE.min(work));
        holders.iter_mut().for_each(Witness::look);
        // With `--close`, a command does not hold without its `navlock run`.
        if how.contains(&"close") && parent_id() != parent {
            break;
        }
    }
    for holder in holders {
        holder.end(false);
    }
    ExitCode::SUCCESS
}

/// Starts a process that works as long as the command, with the oracle's locks, and that no signal for the
/// command ends at once. If the command ends by itself, it gives the oracle's locks up for both.
fn start_helper(holders: &[Witness<'_>], milliseconds: &str) {
    holders.iter().for_each(Witness::leave_open);
    let program = env::current_exe().expect("this program is somewhere");
    let started = Command::new(program).args(["helper", milliseconds]).spawn();
    drop(started.expect("it can be started"));
}

/// The process that [`start_helper`] starts: `helper MILLISECONDS`.
pub(crate) fn helper(words: &[&str]) -> ExitCode {
    let [milliseconds] = words else { panic!("{words:?}") };
    let work = Duration::from_millis(milliseconds.parse().expect("a number of milliseconds"));
    let is_told = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&is_told))
        .expect("a signal can be caught");
    let began = Instant::now();
    while began.elapsed() < work {
        // Nothing is waited for: this is the work. It takes a moment to end after a signal.
        thread::sleep(PIECE);
        if is_told.load(Relaxed) {
            thread::sleep(20 * PIECE);
            break;
        }
    }
    ExitCode::SUCCESS
}

/// A program that uses the library: `client INSTANCE SEED MILLISECONDS`. It locks one name after the
/// other, or two at once, in one thread or two.
pub(crate) fn client(words: &[&str]) -> ExitCode {
    let [instance, seed, milliseconds] = words else { panic!("{words:?}") };
    let directory = &directory();
    let events = &Events::open(directory).expect("the logs are there");
    let seed: u64 = seed.parse().expect("a seed");
    let lifetime = Duration::from_millis(milliseconds.parse().expect("a number of milliseconds"));
    let options = ConnectOptions::default();
    let reach = match block_on_timeout(BrokerReach::connect(options), TIMEOUT) {
        Some(Ok(reach)) => reach,
        Some(Err(error)) => {
            eprintln!("cannot connect: {error}");
            return 69.into();
        }
        None => {
            eprintln!("to connect takes longer than {TIMEOUT:?}");
            return 70.into();
        }
    };
    let locks = &UserAgent::with_reach(reach).lock_manager("default");
    let turns = |dice| {
        let until = Instant::now() + lifetime;
        let mut client = Client { directory, events, instance, locks, dice };
        while Instant::now() < until && !directory.join(STOP).exists() {
            client.turn();
        }
    };
    thread::scope(|scope| {
        if seed % 2 == 0 {
            scope.spawn(|| turns(Dice(!seed)));
        }
        turns(Dice(seed));
    });
    ExitCode::SUCCESS
}

struct Client<'a> {
    directory: &'a PathBuf,
    events: &'a Events,
    instance: &'a str,
    locks: &'a LockManager,
    dice: Dice,
}

impl Client<'_> {
    /// Asks for one lock or two, and holds what is granted for a while.
    fn turn(&mut self) {
        let guards = match self.ask() {
            Ok(guards) => guards,
            Err(error) => {
                let said = error.to_string();
                self.events.say(format_args!("failed {} {said:?}", self.instance));
                // Nothing is waited for: a worker that fails does not keep the others from working.
                thread::sleep(Duration::from_millis(100));
                return;
            }
        };
        let holder = |guard: &LockGuard| Holder {
            instance: self.instance,
            name: guard.name().as_str().expect("our names are text").to_owned(),
            mode: guard.mode(),
            token: guard.fencing_token().to_string(),
        };
        let begin = |guard: LockGuard| {
            let witness = Witness::begin(self.directory, self.events, holder(&guard));
            (guard, witness)
        };
        let mut held: Vec<_> = guards.into_iter().map(begin).collect();
        let work = match self.dice.below(20) {
            0 => self.dice.below(4000),
            1..3 => self.dice.below(400),
            _ => self.dice.below(15),
        };
        work_for(Duration::from_millis(work), &mut held);
        for (guard, witness) in held {
            witness.end(guard.is_lost());
            drop(guard);
        }
        // Nothing is waited for: not all workers are always at work.
        thread::sleep(Duration::from_millis(self.dice.below(20)));
    }

    /// Asks in one of the possible ways. Returns no lock if none is to be had.
    fn ask(&mut self) -> Result<Vec<LockGuard>, Error> {
        let name = *self.dice.choose(&NAMES).expect("there are names");
        let is_shared = self.dice.chance(2);
        let request = self.locks.lock(name);
        let request = if is_shared { request.shared() } else { request };
        match self.dice.below(10) {
            0 => {
                let guard = request.if_available().blocking_timeout(TIMEOUT)?;
                Ok(guard.into_iter().collect())
            }
            // Aborts may cross grants.
            1 => {
                let timeout = Duration::from_micros(self.dice.below(50_000));
                match request.blocking_timeout(timeout) {
                    Err(Error::TimedOut(_)) => Ok(Vec::new()),
                    guard => Ok(vec![guard?]),
                }
            }
            2 | 3 => {
                let second = *self.dice.choose(&NAMES).expect("there are names");
                let both = self.locks.lock_all([name, second]);
                Ok(both.blocking_timeout(TIMEOUT)?)
            }
            _ => Ok(vec![request.blocking_timeout(TIMEOUT)?]),
        }
    }
}

/// Works, unless a lock is lost.
fn work_for(work: Duration, held: &mut [(LockGuard, Witness<'_>)]) {
    let began = Instant::now();
    let mut until = began + work;
    let mut lingers = false;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            // A process that was stopped must be told what it has lost, which takes time.
            let was_away = began.elapsed() > work + AWAY;
            if lingers || !was_away {
                return;
            }
            lingers = true;
            until = Instant::now() + LINGER;
            continue;
        }
        // Nothing is waited for: this is the work.
        thread::sleep(PIECE.min(left));
        if held.iter().any(|(guard, _)| guard.is_lost()) {
            return;
        }
        for (_, witness) in held.iter_mut() {
            witness.look();
        }
    }
}

/// Tells workers to begin nothing new, or takes that back.
pub(crate) fn set_stop(directory: &Path, stop: bool) {
    let path = directory.join(STOP);
    if stop {
        fs::write(path, "").expect("the disk of the logs has room");
    } else {
        fs::remove_file(path).expect("it is there");
    }
}
