//! What a run does to workers, brokers, disks, clocks and etcd, at random.

mod brokers;

use std::{fs, os::unix::fs::MetadataExt, thread, time::Duration};

use rustix::process::Signal;

use crate::{
    dice::Dice,
    disturbance::With,
    etcd::Etcd,
    events::{Events, now},
    history::{Instance, Interval, Kind, Trouble},
    owner::OWNED,
    postgres::Postgres,
    processes::{self, is_command, signal},
    run::{Filled, Run, Stopped, Whose},
};

/// One kind: the word that leaves it out, its weight, its name in the summary, and what it does.
type Disturbance = (&'static str, u64, &'static str, fn(&mut Run<'_>) -> Option<()>);

const DISTURBANCES: [Disturbance; 41] = [
    ("kills", 12, "broker killed", |run| run.kill_broker()),
    ("kills", 4, "next broker killed", |run| run.kill_next_broker()),
    ("kills", 3, "starter killed", |run| run.kill_starter()),
    ("kills", 12, "navlock killed", |run| run.kill(&[Who::Wrapper])),
    ("kills", 8, "command killed", |run| run.kill(&[Who::Command])),
    ("kills", 5, "navlock and command killed", |run| run.kill(&[Who::Wrapper, Who::Command])),
    ("kills", 5, "command and navlock killed", |run| run.kill(&[Who::Command, Who::Wrapper])),
    ("kills", 6, "orphan killed", |run| run.kill(&[Who::Orphan])),
    ("kills", 8, "waiter killed", |run| run.kill(&[Who::Waiter])),
    ("kills", 8, "newborn killed", |run| run.kill(&[Who::Newborn])),
    ("kills", 8, "client killed", |run| run.kill(&[Who::Client])),
    ("kills", 6, "owner killed", |run| run.kill(&[Who::Owner])),
    ("terms", 12, "navlock told to end", |run| run.tell_to_end()),
    ("stops", 8, "owner stopped", |run| run.stop(Who::Owner)),
    ("stops", 16, "owner stopped for a moment", |run| run.stop_for(Who::Owner, 60)),
    ("stops", 6, "broker stopped for a moment", |run| run.stop_broker_for(60)),
    ("sleepers", 4, "holder stopped and broker killed", |run| run.stop_and_kill_broker()),
    ("stops", 4, "broker stopped", |run| run.stop_broker()),
    ("stops", 2, "next broker stopped", |run| run.stop_next_broker()),
    ("stops", 2, "starter stopped", |run| run.stop_starter()),
    ("stops", 8, "navlock stopped", |run| run.stop(Who::Wrapper)),
    ("stops", 4, "command stopped", |run| run.stop(Who::Command)),
    ("stops", 4, "waiter stopped", |run| run.stop(Who::Waiter)),
    ("stops", 8, "client stopped", |run| run.stop(Who::Client)),
    ("full-disk", 2, "disk filled", |run| run.fill(Filled::Bytes)),
    ("full-disk", 2, "inodes used up", |run| run.fill(Filled::Inodes)),
    ("clock-steps", 6, "clock stepped", |run| run.step_clock()),
    ("removed-files", 4, "file removed", |run| run.remove()),
    ("members", 3, "member of etcd disturbed", |run| run.disturb_member()),
    ("cuts", 3, "machine cut off", |run| run.cut_off()),
    ("leaders", 3, "leader of etcd changed", |run| run.of_etcd(Etcd::change_leader)),
    ("compactions", 3, "etcd compacted", |run| run.of_etcd(Etcd::compact)),
    ("compactions", 2, "member of etcd defragmented", |run| run.of_etcd(Etcd::defragment)),
    ("replacements", 1, "member of etcd replaced", |run| run.replace_member()),
    ("quota", 1, "etcd filled", |run| run.fill_etcd()),
    ("members", 2, "PostgreSQL crashed", |run| run.of_postgres(Postgres::crash)),
    ("members", 2, "PostgreSQL stopped", |run| run.of_postgres(Postgres::stop)),
    ("members", 4, "session of PostgreSQL ended", |run| run.of_postgres(Postgres::end_session)),
    ("members", 2, "pooler killed", |run| run.of_postgres(Postgres::kill_pooler)),
    ("leaders", 1, "replica of PostgreSQL promoted", |run| run.of_postgres(Postgres::promote)),
    ("compactions", 2, "rows of PostgreSQL kept or moved", |run| run.of_postgres(Postgres::vacuum)),
];

/// Which worker or process is disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// A `navlock run` whose command is at work.
    Wrapper,
    /// The command of such a `navlock run`.
    Command,
    /// A command whose `navlock run` was killed.
    Orphan,
    /// A `navlock run` without a command.
    Waiter,
    /// A worker that was just started.
    Newborn,
    /// A program that uses the library.
    Client,
    /// A program that takes a few names again and again.
    Owner,
}

impl Run<'_> {
    /// Does one disturbance, chosen at random by weight.
    pub(crate) fn disturb(&mut self) {
        let possible = DISTURBANCES.iter().filter(|(kind, ..)| self.options.has(kind));
        let possible: Vec<_> = possible.collect();
        let mut left =
            self.dice.below(possible.iter().map(|(_, weight, ..)| weight).sum::<u64>().max(1));
        for (_, weight, what, disturb) in possible {
            if left < *weight {
                if disturb(self).is_some() {
                    *self.disturbances.entry(what).or_default() += 1;
                }
                return;
            }
            left -= weight;
        }
    }

    /// Any worker of this kind.
    fn choose(&mut self, who: Who) -> Option<u64> {
        let works = |instance: &Instance| instance.command.is_some_and(is_command);
        let is_run = |instance: &Instance| matches!(instance.kind, Kind::Run { .. });
        let is_it = |instance: &Instance| {
            let ended = instance.ended.is_some();
            match who {
                Who::Wrapper | Who::Command => is_run(instance) && !ended && works(instance),
                Who::Orphan => is_run(instance) && ended && works(instance),
                Who::Waiter => is_run(instance) && !ended && instance.command.is_none(),
                Who::Newborn => !ended && now() - instance.born < 30_000,
                Who::Client => !ended && matches!(instance.kind, Kind::Client),
                Who::Owner => !ended && matches!(instance.kind, Kind::Owner { .. }),
            }
        };
        let suitable = self.history.instances.iter().filter(|(_, instance)| is_it(instance));
        let suitable: Vec<_> = suitable.map(|(id, _)| *id).collect();
        self.dice.choose(&suitable).copied()
    }

    /// Kills the processes in `whom` of a worker that is of the first kind in it.
    fn kill(&mut self, whom: &[Who]) -> Option<()> {
        let id = self.choose(whom[0])?;
        for who in whom {
            let instance = self.history.instances.get_mut(&id)?;
            let (pid, killed) = match who {
                Who::Command | Who::Orphan => (instance.command?, &mut instance.command_killed),
                _ => (instance.pid, &mut instance.killed),
            };
            killed.get_or_insert_with(now);
            self.events.say(format_args!("kills {id} {pid} {who:?}"));
            signal(pid, Signal::KILL);
        }
        Some(())
    }

    /// Sends SIGTERM to a `navlock run` whose command is at work. The lock has to stay held until nothing works
    /// under it.
    fn tell_to_end(&mut self) -> Option<()> {
        let id = self.choose(Who::Wrapper)?;
        let instance = self.history.instances.get_mut(&id)?;
        instance.is_told = true;
        self.events.say(format_args!("tells {id} {} to end", instance.pid));
        signal(instance.pid, Signal::TERM);
        Some(())
    }

    /// How long a process is stopped, or another disturbance lasts, in microseconds.
    fn duration(&mut self) -> u64 {
        let milliseconds = match self.dice.below(10) {
            0..5 => self.dice.below(500),
            5..8 => self.dice.below(4000),
            _ => self.dice.below(15_000),
        };
        milliseconds * 1000
    }

    fn stop(&mut self, who: Who) -> Option<()> {
        let during = self.duration();
        self.stop_during(who, during)
    }

    /// Stops one for less than so many milliseconds.
    fn stop_for(&mut self, who: Who, milliseconds: u64) -> Option<()> {
        let during = self.dice.below(milliseconds * 1000);
        self.stop_during(who, during)
    }

    /// Stops an owner that holds a lock, and kills the broker. Then only the owner's map says what it holds.
    fn stop_and_kill_broker(&mut self) -> Option<()> {
        let id = self.stop_a_holder()?;
        let during = 8_000_000 + self.dice.below(8_000_000);
        self.stop_one(id, Who::Owner, during)?;
        self.kill_broker()
    }

    /// Stops an owner while it holds a lock.
    fn stop_a_holder(&mut self) -> Option<u64> {
        let files = OWNED.map(|name| fs::metadata(self.sandbox.logs.join(format!("{name}.owned"))));
        let files: Vec<_> = files.into_iter().flatten().collect();
        let holds =
            |pid| files.iter().any(|file| processes::lockers(file.ino(), false).contains(&pid));
        for _ in 0..200 {
            let id = self.choose(Who::Owner)?;
            let pid = self.history.instances.get(&id)?.pid;
            if self.stopped.iter().any(|stopped| stopped.pid == pid) {
                continue;
            }
            signal(pid, Signal::STOP);
            // Nothing is waited for: a process stops after a moment, and if it holds nothing the next try
            // follows.
            thread::sleep(Duration::from_micros(300));
            if holds(pid) {
                return Some(id);
            }
            signal(pid, Signal::CONT);
            thread::sleep(Duration::from_millis(1));
        }
        None
    }

    fn stop_during(&mut self, who: Who, during: u64) -> Option<()> {
        let id = self.choose(who)?;
        self.stop_one(id, who, during)
    }

    fn stop_one(&mut self, id: u64, who: Who, during: u64) -> Option<()> {
        let instance = self.history.instances.get_mut(&id)?;
        let (pid, stops, whose) = match who {
            Who::Command => (instance.command?, &mut instance.command_stops, Whose::Command(id)),
            _ => (instance.pid, &mut instance.stops, Whose::Worker(id)),
        };
        if self.stopped.iter().any(|stopped| stopped.pid == pid) {
            return None;
        }
        stops.push(Interval::begin());
        self.events.say(format_args!("stops {id} {pid} {who:?} for {during}"));
        signal(pid, Signal::STOP);
        self.stopped.push(Stopped { pid, until: now() + during, whose });
        Some(())
    }

    fn any_machine(&mut self) -> usize {
        let machines = self.sandbox.machines.len() as u64;
        usize::try_from(self.dice.below(machines)).expect("there are few")
    }

    fn fill(&mut self, filled: Filled) -> Option<()> {
        if self.full.is_some() {
            return None;
        }
        let during = self.duration();
        self.trouble(Trouble::DiskFull, None);
        let what = match filled {
            Filled::Bytes => "bytes",
            Filled::Inodes => "inodes",
        };
        self.events.say(format_args!("disk-is-full of {what} for {during}"));
        self.full = Some((filled, now() + during));
        self.tick();
        Some(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "others cannot always be done")]
    fn step_clock(&mut self) -> Option<()> {
        let most = *self.dice.choose(&[2, 60, 3600, 86_400, 400 * 86_400]).expect("there are some");
        let seconds = i64::try_from(self.dice.below(most)).expect("it is small");
        let seconds = if self.dice.chance(2) { seconds } else { -seconds };
        self.events.say(format_args!("clock is wrong by {seconds} s"));
        self.sandbox.step_clock(seconds);
        Some(())
    }

    fn remove(&mut self) -> Option<()> {
        let machine = self.any_machine();
        let of = &self.sandbox.machines[machine];
        let clients = of.beside("clients");
        let what = self.dice.below(8);
        let path = match what {
            0 => of.socket(),
            1 => of.beside("broker.lock"),
            2 => of.beside("spawn.lock"),
            3 => of.beside("tokens"),
            4 => clients,
            5 | 6 => {
                let files = fs::read_dir(&clients).ok()?.flatten();
                let files: Vec<_> = files.map(|entry| entry.path()).collect();
                self.dice.choose(&files)?.clone()
            }
            _ => of.directory.clone(),
        };
        self.events.say(format_args!("removes {}", path.display()));
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        if what == 7 {
            let _ = fs::create_dir(&path);
        }
        // A part of a directory may be gone even if this failed because somebody made a file in it meanwhile.
        if removed.is_err() && what != 4 && what != 7 {
            return None;
        }
        self.trouble(Trouble::FilesRemoved, Some(machine));
        if let Some((_, _, during)) = self.history.troubles.last_mut() {
            // The consequences take a while.
            during.to = Some(now() + 10_000_000);
        }
        Some(())
    }

    fn disturb_member(&mut self) -> Option<()> {
        let during = self.duration();
        let etcd = self.etcd.as_mut()?;
        etcd.disturb_member(&mut self.dice, during, &self.events, &mut self.history)
    }

    /// Does something to etcd that is over at once.
    fn of_etcd(
        &mut self,
        disturb: impl FnOnce(&mut Etcd, &mut Dice, &Events) -> Option<()>,
    ) -> Option<()> {
        disturb(self.etcd.as_mut()?, &mut self.dice, &self.events)
    }

    fn replace_member(&mut self) -> Option<()> {
        let etcd = self.etcd.as_mut()?;
        let logs = &self.sandbox.logs;
        etcd.replace_member(&mut self.dice, logs, &self.events, &mut self.history)
    }

    fn fill_etcd(&mut self) -> Option<()> {
        let during = self.duration();
        self.etcd.as_mut()?.fill(during, &self.events, &mut self.history)
    }

    fn of_postgres(
        &mut self,
        disturb: impl FnOnce(&mut Postgres, &mut With<'_>) -> Option<()>,
    ) -> Option<()> {
        let during = self.duration();
        let Self { postgres, dice, events, history, .. } = self;
        disturb(postgres.as_mut()?, &mut With { dice, during, events, history })
    }

    fn cut_off(&mut self) -> Option<()> {
        let (machine, during) = (self.any_machine(), self.duration());
        let Self { etcd, postgres, dice, events, history, .. } = self;
        let cables = match (etcd, postgres) {
            (Some(etcd), _) => &mut etcd.cables,
            (None, postgres) => &mut postgres.as_mut()?.cables,
        };
        cables.cut_off(machine, &mut With { dice, during, events, history })
    }
}
