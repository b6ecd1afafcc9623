//! Programs of the library that take a few names again and again, in bursts, so that they come to own them.
//! What an owner takes then is between the owner and a word of memory. The broker may take the name back,
//! die, or be stopped between any two steps.

mod observations;

use std::{
    hint,
    path::Path,
    process::{self, ExitCode},
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
    oracle::{Cells, Oracle, Other},
    worker::{STOP, TIMEOUT},
};

/// The names that owners take from each other. Only the last one is stolen, so that the others need no
/// excuses.
pub(crate) const OWNED: [&str; 3] = ["o", "p", "s"];
pub(crate) const STOLEN: &str = "s";

/// How many threads an owner has at most.
pub(crate) const THREADS: usize = 3;

/// How long a burst may take.
const BURST: Duration = Duration::from_millis(60);

/// How many locks a burst takes at most.
const TAKES: u64 = 400;

/// A number of names that is larger than what can be owned at once.
const MANY: u64 = 1200;

/// `owner INSTANCE SEED MILLISECONDS PLACE [plain|rogue]`: PLACE is that of its first thread among the cells;
/// a plain owner owns no names.
pub(crate) fn owner(words: &[&str]) -> ExitCode {
    let [instance, seed, milliseconds, place, ref how @ ..] = *words else { panic!("{words:?}") };
    let number = |word: &str| word.parse::<u64>().expect("a number");
    let (instance, seed) = (number(instance), number(seed));
    let place = usize::try_from(number(place)).expect("there are few places");
    let directory = &directory();
    let events = &Events::open(directory).expect("the logs are there");
    let until = Instant::now() + Duration::from_millis(number(milliseconds));
    if how.contains(&"rogue") {
        return rogue(directory, events, instance, place, until);
    }
    let options = ConnectOptions::default();
    let options = if how.contains(&"plain") { options.delegate(false) } else { options };
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
    let user_agent = &UserAgent::with_reach(reach);
    let mut dice = Dice(seed);
    let threads = 1 + usize::try_from(dice.below(THREADS as u64)).expect("it is small");
    // Either all threads are one agent, or each has an agent of its own, which may end before the thread
    // does.
    let shared = dice.chance(3).then(|| user_agent.lock_manager("default"));
    let run = |thread: usize, dice| {
        let locks = shared.clone().unwrap_or_else(|| user_agent.lock_manager("default"));
        let open = |name: &str| Oracle::open(directory, name, place + thread, instance);
        let oracles = OWNED.map(|name| open(name).expect("there is room"));
        let (own, is_alone) = (format!("own/{instance}/{thread}"), shared.is_none());
        Owner { directory, events, instance, user_agent, locks, is_alone, own, oracles, dice }
            .work(until);
    };
    thread::scope(|scope| {
        for thread in 1..threads {
            let dice = Dice(dice.next());
            scope.spawn(move || run(thread, dice));
        }
        run(0, Dice(dice.next()));
    });
    ExitCode::SUCCESS
}

/// An owner that believes to hold a lock without asking for it: a run that breaks the rules on purpose has to
/// find this.
fn rogue(
    directory: &Path,
    events: &Events,
    instance: u64,
    place: usize,
    until: Instant,
) -> ExitCode {
    let mut oracle = Oracle::open(directory, OWNED[0], place, instance).expect("there is room");
    let seen = Seen { events, instance, name: OWNED[0], mode: Mode::Exclusive, token: 1 };
    while Instant::now() < until && !directory.join(STOP).exists() {
        let before = oracle.cells();
        seen.begins(&mut oracle, &before, true);
        thread::sleep(Duration::from_millis(1));
        oracle.ends(1);
        thread::sleep(Duration::from_millis(10));
    }
    ExitCode::SUCCESS
}

/// One thread of an owner.
struct Owner<'a> {
    directory: &'a Path,
    events: &'a Events,
    instance: u64,
    user_agent: &'a UserAgent,
    locks: LockManager,
    /// Whether the agent is this thread's alone.
    is_alone: bool,
    /// A name that nobody else knows.
    own: String,
    oracles: [Oracle; OWNED.len()],
    dice: Dice,
}

impl Owner<'_> {
    fn work(mut self, until: Instant) {
        while Instant::now() < until && !self.directory.join(STOP).exists() {
            let nth = usize::try_from(self.dice.below(OWNED.len() as u64)).expect("it is small");
            let done = match self.dice.below(12) {
                0 | 1 => self.alone(),
                2 | 3 => self.ask_behind(nth),
                4 => self.look_around(nth),
                5 if self.dice.chance(4) => self.rotate(),
                _ => self.burst(nth),
            };
            if let Err(error) = done {
                let said = error.to_string();
                self.events.say(format_args!("failed {} {said:?}", self.instance));
                // Nothing is waited for: an owner that fails does not keep the others from working.
                thread::sleep(Duration::from_millis(100));
            }
            if self.is_alone && self.dice.chance(40) {
                self.locks.terminate();
                self.locks = self.user_agent.lock_manager("default");
            }
            // Nothing is waited for: what is owned lies idle meanwhile.
            let pause = if self.dice.chance(4) { 150 } else { 12 };
            thread::sleep(Duration::from_millis(self.dice.below(pause)));
        }
    }

    /// Takes a name as often as it can, in one mode.
    fn burst(&mut self, nth: usize) -> Result<(), Error> {
        let mode = if self.dice.chance(3) { Mode::Shared } else { Mode::Exclusive };
        let (takes, began) = (1 + self.dice.below(TAKES), Instant::now());
        let is_slow = self.dice.chance(8);
        // As fast as possible, without the oracle that finds other holders.
        let is_bare = self.dice.chance(4);
        let mut had = 0;
        while had < takes && began.elapsed() < BURST {
            let before = if is_bare { Cells::default() } else { self.oracles[nth].cells() };
            let Some((guard, in_turn)) = self.take(OWNED[nth], mode)? else { continue };
            had += 1;
            if is_bare {
                let token = guard.fencing_token().get();
                self.oracles[nth].begins(mode, token, in_turn);
            } else {
                self.hold(nth, guard, &before, in_turn, is_slow);
            }
        }
        self.events.say(format_args!("burst {} {} {had}", self.instance, OWNED[nth]));
        Ok(())
    }

    /// Takes a name in one of the possible ways. Returns the lock, and whether it was granted in its turn.
    fn take(&mut self, name: &str, mode: Mode) -> Result<Option<(LockGuard, bool)>, Error> {
        let request = self.locks.lock(name);
        let request = if mode == Mode::Shared { request.shared() } else { request };
        Ok(match self.dice.below(200) {
            0 if name == STOLEN => {
                self.events.say(format_args!("steals {} {name}", self.instance));
                let guard = self.locks.lock(name).steal().blocking_timeout(TIMEOUT)?;
                Some((guard, false))
            }
            0..12 => {
                let guard = request.if_available().blocking_timeout(TIMEOUT)?;
                guard.map(|guard| (guard, true))
            }
            // Aborts may cross grants.
            12..20 => {
                let timeout = Duration::from_micros(self.dice.below(3000));
                match request.blocking_timeout(timeout) {
                    Err(Error::TimedOut(_)) => None,
                    guard => Some((guard?, true)),
                }
            }
            20..90 => {
                let guard = block_on_timeout(request, TIMEOUT);
                Some((guard.unwrap_or(Err(Error::TimedOut(String::new())))?, true))
            }
            _ => Some((
                block_on_timeout(async { request.await }, TIMEOUT)
                    .unwrap_or(Err(Error::TimedOut(String::new())))?,
                true,
            )),
        })
    }

    /// Holds a lock for a while, and releases it.
    fn hold(&mut self, nth: usize, guard: LockGuard, before: &Cells, in_turn: bool, is_slow: bool) {
        let (mode, token) = (guard.mode(), guard.fencing_token().get());
        let seen =
            Seen { events: self.events, instance: self.instance, name: OWNED[nth], mode, token };
        seen.begins(&mut self.oracles[nth], before, in_turn);
        self.work_for(&guard, is_slow);
        let is_lost = guard.is_lost();
        if is_lost {
            self.events.say(format_args!("lost {}", seen.said()));
        }
        self.oracles[nth].ends(token);
        // A lock is lost at once when its agent ends.
        if self.is_alone && self.dice.chance(400) {
            self.locks.terminate();
            if !guard.is_lost() {
                self.shown(OWNED[nth], "is not lost though its agent was terminated");
            }
            self.locks = self.user_agent.lock_manager("default");
        }
        drop(guard);
    }

    /// What is done under a lock: mostly nothing.
    fn work_for(&mut self, guard: &LockGuard, is_slow: bool) {
        let microseconds = match self.dice.below(if is_slow { 20 } else { 2000 }) {
            0 => self.dice.below(300_000),
            1 => self.dice.below(1_500_000),
            2..20 => self.dice.below(3000),
            20..200 => {
                (0..self.dice.below(300)).for_each(|_| hint::spin_loop());
                return;
            }
            _ => return,
        };
        let until = Instant::now() + Duration::from_micros(microseconds);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || guard.is_lost() {
                return;
            }
            // Nothing is waited for: this is the work.
            thread::sleep(left.min(Duration::from_millis(5)));
        }
    }

    /// Takes many names that no other process knows. They are more than can be owned at once, so that owned
    /// names lose their places in the map to others.
    fn rotate(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        while began.elapsed() < 2 * BURST {
            let name = format!("{}/{}", self.own, self.dice.below(MANY));
            let guard = if self.dice.chance(8) {
                self.locks.lock(&*name).if_available().blocking_timeout(TIMEOUT)?
            } else {
                Some(self.locks.lock(&*name).blocking_timeout(TIMEOUT)?)
            };
            if guard.is_none() {
                self.shown(&name, "is said to be held though nobody holds it");
            }
        }
        Ok(())
    }
}

/// A holder of one of the names, as the events name it.
struct Seen<'a> {
    events: &'a Events,
    instance: u64,
    name: &'a str,
    mode: Mode,
    token: u64,
}

impl Seen<'_> {
    fn said(&self) -> String {
        let Self { instance, name, mode, token, .. } = self;
        format!("{instance} {name} {mode} {token} {}", process::id())
    }

    /// Says that it begins to hold; complains if it must not hold.
    fn begins(&self, oracle: &mut Oracle, before: &Cells, in_turn: bool) {
        oracle.lock(self.mode, |Other { pid, is_dying }| {
            let what = if is_dying { "dying" } else { "conflict" };
            self.events.say(format_args!("{what} {} {pid}", self.said()));
        });
        if let Some((other, others)) = oracle.larger(self.mode, self.token, before) {
            let Self { instance, name, token, .. } = self;
            self.events.say(format_args!("token {instance} {name} {token} {other} {others}"));
        }
        oracle.begins(self.mode, self.token, in_turn);
    }
}
