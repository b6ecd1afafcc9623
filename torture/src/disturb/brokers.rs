//! What a run does to brokers, and to the processes that start them.

use std::{thread, time::Duration};

use rustix::process::Signal;

use crate::{
    events::now,
    history::{Interval, Trouble},
    processes::{self, signal},
    run::{Run, Stopped, Whose},
};

impl Run<'_> {
    /// The brokers of a machine, and the processes that are about to become one.
    pub(crate) fn brokers(&self, machine: usize) -> Vec<i32> {
        let socket = self.sandbox.machines[machine].socket();
        let is_broker = |pid: &i32| {
            let words = processes::words(*pid);
            words.get(1..).is_some_and(|words| words == ["daemon", "run"])
                && processes::variable(*pid, "NAVLOCK_SOCKET").as_deref() == socket.to_str()
                && !processes::is_gone(*pid)
        };
        processes::all().into_iter().filter(is_broker).collect()
    }

    pub(super) fn kill_broker(&mut self) -> Option<()> {
        let machine = self.any_machine();
        let brokers = self.brokers(machine);
        let pid = *self.dice.choose(&brokers)?;
        self.end_broker(machine, pid);
        Some(())
    }

    fn end_broker(&mut self, machine: usize, pid: i32) {
        self.events.say(format_args!("kills broker of m{machine} {pid}"));
        self.trouble(Trouble::BrokerKilled, Some(machine));
        signal(pid, Signal::KILL);
    }

    /// Kills the broker, and waits until there is another one, which it returns.
    fn next_broker(&mut self) -> Option<(usize, i32)> {
        let machine = self.any_machine();
        let before = self.brokers(machine);
        for pid in &before {
            self.end_broker(machine, *pid);
        }
        // Do not wait long: perhaps nobody needs a broker.
        for _ in 0..200 {
            let next = self.brokers(machine).into_iter().find(|pid| !before.contains(pid));
            if let Some(next) = next {
                return Some((machine, next));
            }
            thread::sleep(Duration::from_micros(500));
        }
        None
    }

    pub(super) fn kill_next_broker(&mut self) -> Option<()> {
        let (machine, pid) = self.next_broker()?;
        // Nothing is waited for: the broker is killed at a random moment.
        thread::sleep(Duration::from_micros(self.dice.below(30_000)));
        self.end_broker(machine, pid);
        Some(())
    }

    /// The process that is starting the next broker.
    fn starter(&mut self) -> Option<(usize, u64, i32)> {
        let (machine, broker) = self.next_broker()?;
        let parent = processes::parent(broker)?;
        let id = self.history.instances.iter().find(|(_, instance)| instance.pid == parent);
        Some((machine, *id?.0, parent))
    }

    pub(super) fn kill_starter(&mut self) -> Option<()> {
        let (_, id, pid) = self.starter()?;
        self.history.instances.get_mut(&id)?.killed.get_or_insert_with(now);
        self.events.say(format_args!("kills {id} {pid} Starter"));
        signal(pid, Signal::KILL);
        Some(())
    }

    pub(super) fn stop_starter(&mut self) -> Option<()> {
        let (machine, id, pid) = self.starter()?;
        self.history.instances.get_mut(&id)?.stops.push(Interval::begin());
        self.stop_process(machine, pid, "starter");
        let until = now() + self.duration();
        self.stopped.push(Stopped { pid, until, whose: Whose::Worker(id) });
        Some(())
    }

    pub(super) fn stop_next_broker(&mut self) -> Option<()> {
        let (machine, pid) = self.next_broker()?;
        self.stop_process(machine, pid, "next broker");
        Some(())
    }

    pub(super) fn stop_broker(&mut self) -> Option<()> {
        let during = self.duration();
        self.stop_broker_during(during)
    }

    /// Stops a broker for less than so many milliseconds.
    pub(super) fn stop_broker_for(&mut self, milliseconds: u64) -> Option<()> {
        let during = self.dice.below(milliseconds * 1000);
        self.stop_broker_during(during)
    }

    fn stop_broker_during(&mut self, during: u64) -> Option<()> {
        let machine = self.any_machine();
        let brokers = self.brokers(machine);
        let pid = *self.dice.choose(&brokers)?;
        self.stop_process_during(machine, pid, "broker", during);
        Some(())
    }

    /// Stops a process for which others of this machine wait.
    fn stop_process(&mut self, machine: usize, pid: i32, what: &str) {
        let during = self.duration();
        self.stop_process_during(machine, pid, what, during);
    }

    fn stop_process_during(&mut self, machine: usize, pid: i32, what: &str, during: u64) {
        if self.stopped.iter().any(|stopped| stopped.pid == pid) {
            return;
        }
        self.events.say(format_args!("stops {what} of m{machine} {pid} for {during}"));
        self.trouble(Trouble::BrokerStopped, Some(machine));
        signal(pid, Signal::STOP);
        self.stopped.push(Stopped { pid, until: now() + during, whose: Whose::Broker(machine) });
    }
}
