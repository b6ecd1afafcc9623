//! A run: workers, what befalls them, and what comes of it.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
    env,
    fs::{self, File},
    io,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Signal, WaitOptions, WaitStatus, wait};

use crate::{
    dice::Dice,
    etcd::Etcd,
    events::{Events, now},
    history::{History, Instance, Interval, Kind, Trouble},
    judge::{Judge, Verdict},
    options::{Options, Reach},
    owner::THREADS,
    processes::{is_command, signal},
    sandbox::{Machine, Sandbox},
    worker::{NAMES, set_stop},
};

/// How many workers there are at any time, and how many owners besides.
const WORKERS: usize = 8;
const OWNERS: usize = 4;

/// How long it is between two pauses, in which everything has to come to its end.
const ROUND: Duration = Duration::from_secs(60);

/// How many violations are shown at once.
const SHOWN: usize = 20;

/// Who ends so soon without having worked has failed, or was killed, and the next one comes later, in
/// microseconds.
const BRIEFLY: u64 = 100_000;
const PATIENCE: u64 = 200_000;

/// How often it is looked who has ended.
pub(crate) const TICK: Duration = Duration::from_millis(5);

/// Somebody who is stopped, and until when.
pub(crate) struct Stopped {
    pub(crate) pid: i32,
    pub(crate) until: u64,
    /// Whose stop it is that ends then.
    pub(crate) whose: Whose,
}

#[derive(Clone, Copy)]
pub(crate) enum Whose {
    Worker(u64),
    Command(u64),
    Broker(usize),
}

pub(crate) struct Run<'a> {
    pub(crate) options: &'a Options,
    pub(crate) sandbox: Sandbox,
    pub(crate) etcd: Option<Etcd>,
    pub(crate) events: Events,
    read: u64,
    pub(crate) dice: Dice,
    pub(crate) history: History,
    workers: [u64; WORKERS + OWNERS],
    born: u64,
    by_pid: HashMap<i32, u64>,
    pub(crate) stopped: Vec<Stopped>,
    /// What fills the disk, and until when.
    pub(crate) full: Option<(Filled, u64)>,
    pub(crate) disturbances: BTreeMap<&'static str, u64>,
    excused: BTreeMap<(&'static str, &'static str), u64>,
    pub(crate) violations: usize,
    pub(crate) stuck: u64,
    /// The most that a broker had at the end of a round: memory in KiB, and descriptors.
    pub(crate) broker_size: (u64, usize),
    interrupted: Arc<AtomicBool>,
}

#[derive(Clone, Copy)]
pub(crate) enum Filled {
    Bytes,
    Inodes,
}

impl<'a> Run<'a> {
    pub(crate) fn new(options: &'a Options) -> io::Result<Self> {
        let machines = match options.reach {
            Reach::Broker => 1,
            Reach::Etcd => 4,
        };
        let sandbox = Sandbox::new(options, machines)?;
        let etcd = match options.reach {
            Reach::Broker => None,
            Reach::Etcd => Some(Etcd::start(&sandbox, options.has("kept-names"))?),
        };
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        Ok(Self {
            options,
            events: Events::open(&sandbox.logs)?,
            sandbox,
            etcd,
            read: 0,
            dice: Dice(options.seed),
            history: History::default(),
            workers: [u64::MAX; WORKERS + OWNERS],
            born: 0,
            by_pid: HashMap::new(),
            stopped: Vec::new(),
            full: None,
            disturbances: BTreeMap::new(),
            excused: BTreeMap::new(),
            violations: 0,
            stuck: 0,
            broker_size: (0, 0),
            interrupted,
        })
    }

    /// Runs to its end. Whether all was well.
    pub(crate) fn run(mut self) -> bool {
        let began = Instant::now();
        let ends = began + self.options.lasts;
        while Instant::now() < ends && !self.is_interrupted() && self.stuck == 0 {
            let until = ends.min(Instant::now() + ROUND);
            let mut next = now();
            while Instant::now() < until && !self.is_interrupted() {
                self.tick();
                self.renew();
                if now() >= next {
                    self.disturb();
                    next = now() + self.dice.below(300_000);
                }
                thread::sleep(TICK);
            }
            self.pause();
        }
        self.look_for_faults();
        self.look_for_owners();
        self.summarise(began.elapsed())
    }

    /// A broker that has panicked is at fault, whatever made up for it.
    fn look_for_faults(&mut self) {
        let faults: String = self.sandbox.machines.iter().map(Machine::faults).collect();
        for fault in faults.lines() {
            self.violated(now(), &format!("a broker panicked: {fault}"));
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Relaxed)
    }

    /// Takes notice of what has happened, and undoes what is over.
    pub(crate) fn tick(&mut self) {
        self.reap();
        let (lines, end) = self.events.since(self.read);
        self.read = end;
        self.history.take_in(&lines);
        let at = now();
        let (over, stopped) = self.stopped.drain(..).partition(|stopped| stopped.until <= at);
        self.stopped = stopped;
        let over: Vec<Stopped> = over;
        for stopped in over {
            self.go_on(&stopped);
        }
        match self.full {
            Some((_, until)) if until <= at => self.make_room(),
            // What is removed meanwhile makes no room.
            Some((Filled::Bytes, _)) => self.sandbox.fill_bytes(),
            Some((Filled::Inodes, _)) => self.sandbox.fill_inodes(),
            None => {}
        }
        if let Some(etcd) = &mut self.etcd {
            etcd.tick(&self.sandbox.logs, &self.events, &mut self.history);
            for what in etcd.record.wrong() {
                self.violated(at, &what);
            }
        }
    }

    pub(crate) fn go_on(&mut self, stopped: &Stopped) {
        self.events.say(format_args!("goes-on {}", stopped.pid));
        signal(stopped.pid, Signal::CONT);
        match stopped.whose {
            Whose::Worker(id) | Whose::Command(id) => {
                if let Some(instance) = self.history.instances.get_mut(&id) {
                    let is_worker = matches!(stopped.whose, Whose::Worker(_));
                    let stops =
                        if is_worker { &mut instance.stops } else { &mut instance.command_stops };
                    stops.iter_mut().for_each(Interval::end);
                }
            }
            Whose::Broker(machine) => self.over(Trouble::BrokerStopped, Some(machine)),
        }
    }

    pub(crate) fn make_room(&mut self) {
        if self.full.take().is_some() {
            self.events.say(format_args!("disk-has-room"));
            self.sandbox.empty();
            self.over(Trouble::DiskFull, None);
        }
    }

    /// A trouble that lasts has begun.
    pub(crate) fn trouble(&mut self, trouble: Trouble, machine: Option<usize>) {
        self.history.troubles.push((trouble, machine, Interval::begin()));
    }

    fn over(&mut self, trouble: Trouble, machine: Option<usize>) {
        let is_it = |found: &&mut (Trouble, Option<usize>, Interval)| {
            found.0 == trouble && found.1 == machine && found.2.to.is_none()
        };
        if let Some((_, _, during)) = self.history.troubles.iter_mut().find(is_it) {
            during.end();
        }
    }

    /// Takes notice of children that have ended, which all orphans are at last.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get();
            if let Some(id) = self.by_pid.remove(&pid) {
                self.ended(id, status);
            }
        }
    }

    /// Starts a worker for each that has ended.
    fn renew(&mut self) {
        // With etcd no name is anybody's own.
        let has_owners = self.options.reach == Reach::Broker && self.options.has("owners");
        for slot in 0..if has_owners { WORKERS + OWNERS } else { WORKERS } {
            let current = self.history.instances.get(&self.workers[slot]);
            // Who fails does not take the time from those who do not.
            let may_follow = |instance: &Instance| {
                instance.ended.is_some_and(|ended| {
                    let briefly = ended - instance.born < BRIEFLY && instance.command.is_none();
                    !briefly || ended + PATIENCE < now()
                })
            };
            if current.is_none_or(may_follow) {
                self.workers[slot] = self.give_birth(slot);
            }
        }
    }

    fn give_birth(&mut self, slot: usize) -> u64 {
        let id = self.born;
        self.born += 1;
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
            stops: Vec::new(),
            command: None,
            command_killed: None,
            command_stops: Vec::new(),
            ended: None,
        };
        self.history.instances.insert(id, instance);
        id
    }

    fn stderr(&self, id: u64) -> PathBuf {
        self.sandbox.logs.join(format!("stderr.{id}"))
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
        // Who takes what others have does not wait.
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
        // As where the map cannot be had.
        let delegates = self.options.has("delegation") && !self.dice.chance(10);
        if !delegates {
            command.arg("plain");
        }
        (Kind::Owner { delegates }, command)
    }

    /// One that works without a lock.
    fn rogue(&mut self, id: u64, machine: usize) -> Command {
        let name = *self.dice.choose(&NAMES).expect("there are names");
        let work = self.dice.below(500).to_string();
        let mut command = self.sandbox.program(machine, &us());
        command.args(["command", &id.to_string(), &work]);
        // As one that has kept a token of long ago.
        command.env("NAVLOCK_NAME", name).env("NAVLOCK_MODE", "exclusive");
        command.env("NAVLOCK_FENCE", "1");
        command
    }

    /// A child of ours has ended; was that to be?
    fn ended(&mut self, id: u64, status: WaitStatus) {
        // What it has said before.
        let (lines, end) = self.events.since(self.read);
        self.read = end;
        self.history.take_in(&lines);
        let at = now();
        let Some(instance) = self.history.instances.get_mut(&id) else { return };
        instance.ended = Some(at);
        let (code, signal) = (status.exit_status(), status.terminating_signal());
        let shown =
            code.map_or_else(|| format!("signal {signal:?}"), |code| format!("code {code}"));
        self.events.say(format_args!("ended {id} {shown}"));
        let instance = instance.clone();
        let judge = Judge::new(&self.history, self.options);
        let excuse = match (code, &instance.kind) {
            (Some(0), _) | (Some(1), Kind::Run { may_give_up: true, .. }) => Some(""),
            // The command's end, which is passed on.
            (Some(137), Kind::Run { .. }) if instance.command_killed.is_some() => Some(""),
            (Some(75), Kind::Run { .. }) => judge.may_lose(id, None, at),
            (Some(69 | 126), _) => judge.may_fail(id, at),
            (None, _) if instance.killed.is_some() => Some(""),
            _ => None,
        };
        let path = self.stderr(id);
        match excuse {
            Some("") => {}
            Some(reason) => {
                let ended = if code == Some(75) { "told that it has lost" } else { "failed" };
                *self.excused.entry((ended, reason)).or_default() += 1;
            }
            None => {
                let said = fs::read_to_string(&path).unwrap_or_default();
                self.violated(
                    at,
                    &format!("{id} ended with {shown}: {} {instance:?}", said.trim()),
                );
            }
        }
        if excuse.is_some() {
            let _ = fs::remove_file(path);
        }
    }

    pub(crate) fn violated(&mut self, at: u64, what: &str) {
        self.events.say(format_args!("VIOLATION {at} {}", what.replace('\n', " ")));
        self.violations += 1;
        match self.violations.cmp(&SHOWN) {
            Ordering::Less => eprintln!("violation at {at}: {what}"),
            Ordering::Equal => eprintln!("further violations are among the events"),
            Ordering::Greater => {}
        }
    }

    /// That nothing was wrong with names that nobody owned says nothing of those that somebody owns.
    fn look_for_owners(&mut self) {
        let has_owners = self.options.reach == Reach::Broker && self.options.has("owners");
        let should_own = has_owners && self.options.has("delegation");
        if should_own && self.history.grants > 1000 && self.history.owned == 0 {
            self.violated(now(), "no name was ever seen to be owned");
        }
    }

    /// Judges what was suspicious. To be called when all is known that has to do with it.
    pub(crate) fn judge(&mut self) {
        let suspicions = std::mem::take(&mut self.history.suspicions);
        for (at, suspicion) in suspicions {
            let judge = Judge::new(&self.history, self.options);
            match judge.judge(at, &suspicion) {
                Verdict::Excused(reason) => {
                    self.events.say(format_args!("excused {at} {reason}: {suspicion:?}"));
                    *self.excused.entry((suspicion.what(), reason)).or_default() += 1;
                }
                Verdict::Violation(what) => self.violated(at, &what),
            }
        }
    }

    fn summarise(self, lasted: Duration) -> bool {
        let counts = self.disturbances.iter().map(|(what, count)| format!("{what} {count}"));
        println!("disturbances: {}", counts.collect::<Vec<_>>().join(", "));
        for ((what, reason), count) in &self.excused {
            println!("as docs/crashes.md says, {count} times {what}: {reason}");
        }
        let asked = self.history.asked.iter();
        let asked: Vec<_> = asked.map(|(most, times)| format!("{times} times {most}")).collect();
        if !asked.is_empty() {
            println!(
                "who asked for what others take in a loop saw one of them have it before: {}; names \
                 that are owned were seen {} times",
                asked.join(", "),
                self.history.owned,
            );
        }
        if let Some(etcd) = &self.etcd {
            println!("{}", etcd.record.summary());
        }
        let is_well = self.violations == 0 && self.stuck == 0;
        let reach = match self.options.reach {
            Reach::Broker => "broker",
            Reach::Etcd => "etcd",
        };
        let (memory, descriptors) = self.broker_size;
        println!(
            "torture of {reach}, seed {}, {} s: {} grants to {} processes, {} disturbances, {} \
             violations, {} stuck; a broker at rest has {memory} KiB and {descriptors} descriptors",
            self.options.seed,
            lasted.as_secs(),
            self.history.grants,
            self.born,
            self.disturbances.values().sum::<u64>(),
            self.violations,
            self.stuck,
        );
        // Else they are removed, once nothing in them is in use.
        if !is_well || self.options.keeps {
            println!("the logs are in {}", self.sandbox.logs.display());
        }
        is_well
    }

    /// Those whose processes are not over.
    pub(crate) fn living(&self) -> Vec<u64> {
        let lives = |instance: &Instance| {
            let has_command = instance.command.is_some_and(is_command);
            instance.ended.is_none() || has_command
        };
        let living = self.history.instances.iter().filter(|(_, instance)| lives(instance));
        living.map(|(id, _)| *id).collect()
    }

    pub(crate) fn set_stop(&self, stop: bool) {
        set_stop(&self.sandbox.logs, stop);
    }
}

/// This program.
fn us() -> PathBuf {
    env::current_exe().expect("this program is somewhere")
}
