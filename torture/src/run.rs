//! A run: its workers, what is stopped or full at present, and when each next step is due.

mod verdicts;
mod workers;

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Signal, WaitOptions, wait};

use crate::{
    dice::Dice,
    etcd::Etcd,
    events::{Events, now},
    history::{History, Instance, Interval, Trouble},
    options::{Options, Reach},
    postgres::Postgres,
    processes::{is_command, signal},
    sandbox::Sandbox,
    worker::set_stop,
};

/// How many workers there are at any time, and how many owners besides.
const WORKERS: usize = 8;
const OWNERS: usize = 4;

/// How long it is between two pauses, in which everything has to come to its end.
const ROUND: Duration = Duration::from_secs(60);

/// How long it is between two looks for processes that have ended.
pub(crate) const TICK: Duration = Duration::from_millis(5);

/// A process that is stopped, and the time until which it is.
pub(crate) struct Stopped {
    pub(crate) pid: i32,
    pub(crate) until: u64,
    /// The kind of process.
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
    pub(crate) postgres: Option<Postgres>,
    pub(crate) events: Events,
    read: u64,
    pub(crate) dice: Dice,
    pub(crate) history: History,
    workers: [u64; WORKERS + OWNERS],
    /// How many workers were started.
    started: u64,
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
            Reach::Etcd | Reach::Postgres => 4,
        };
        let sandbox = Sandbox::new(options, machines)?;
        let etcd = match options.reach {
            Reach::Etcd => Some(Etcd::start(&sandbox, options.has("owned-names"))?),
            Reach::Broker | Reach::Postgres => None,
        };
        let postgres = match options.reach {
            Reach::Postgres => Some(Postgres::start(&sandbox, options.has("owned-names"))?),
            Reach::Broker | Reach::Etcd => None,
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
            postgres,
            read: 0,
            dice: Dice(options.seed),
            history: History::default(),
            workers: [u64::MAX; WORKERS + OWNERS],
            started: 0,
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

    /// Runs to its end, and returns whether all was well.
    pub(crate) fn run(mut self) -> bool {
        let began = Instant::now();
        let ends = began + self.options.lasts;
        while Instant::now() < ends && !self.is_interrupted() && self.stuck == 0 {
            let until = ends.min(Instant::now() + ROUND);
            let mut next = now();
            while Instant::now() < until && !self.is_interrupted() {
                self.tick();
                self.start_workers();
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

    /// The file with the standard error of a worker.
    fn stderr(&self, id: u64) -> PathBuf {
        self.sandbox.logs.join(format!("stderr.{id}"))
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Relaxed)
    }

    /// Takes in new events, and undoes the disturbances whose time is over.
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
            // Fill the disk again: what was removed meanwhile must not make room.
            Some((Filled::Bytes, _)) => self.sandbox.fill_bytes(),
            Some((Filled::Inodes, _)) => self.sandbox.fill_inodes(),
            None => {}
        }
        if let Some(postgres) = &mut self.postgres {
            postgres.tick(&self.events, &mut self.history);
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

    /// Notes that a lasting trouble has begun.
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

    /// Takes notice of children that have ended. Orphans become children of this process, too.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get();
            if let Some(id) = self.by_pid.remove(&pid) {
                self.ended(id, status);
            }
        }
    }

    /// The workers of which a process still runs: their own, or their command's.
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
