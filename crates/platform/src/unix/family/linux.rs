//! All processes below this one.

use std::{
    collections::HashSet,
    process::Child,
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::wait::{Id, WaitPidFlag, waitid},
    unistd,
};
use rustix::{
    io::Errno,
    process::{Pid, WaitId, WaitIdOptions, getpid, set_child_subreaper},
};

use super::processes::{Identity, Process, Processes};
use crate::{process::Signal, signal::Told};

/// How long it may take to stop all of them. If a process starts others faster than they can be stopped,
/// those that are known are killed, and then those that are found next.
const STOPPING: Duration = Duration::from_millis(100);

/// How often to look whether all have stopped.
const PAUSE: Duration = Duration::from_millis(1);

/// All processes that are below us and were not there before the command.
///
/// A process whose parent has ended becomes our child, by the kernel: we are a "subreaper". So all that the
/// command has started stays below us for as long as we live, daemons as well. When we end these processes go
/// on, and go to the next subreaper, as they would have without us.
///
/// The processes are looked for anew each time, because some end and some begin between two looks. Processes
/// that work for the command and are not started by it are not found, such as containers, which a container
/// engine starts.
#[derive(Debug)]
pub struct Family {
    /// The variable that marks processes that are not of the family.
    mark: &'static str,
    command: Option<Pid>,
    /// The processes that were below us before: a broker, or jobs of a shell that has become us.
    strangers: HashSet<Identity>,
}

impl Family {
    /// The family of a command which is about to be started. A process that has this variable is not of the
    /// family, nor are processes below it: such a process is a broker, which is everybody's.
    pub fn new(mark: &'static str) -> Self {
        // If the kernel has no subreapers, processes whose parents have ended are not found.
        let _ = set_child_subreaper(Some(getpid()));
        let below = if has_children() {
            Processes::now().below_us(&HashSet::new(), mark)
        } else {
            Vec::new()
        };
        let strangers = below.iter().map(|process| process.identity).collect();
        Self { mark, command: None, strangers }
    }

    /// Adds the command, which has been started and not been waited for.
    pub fn begins(&mut self, command: &Child) {
        self.command = Some(Pid::from_child(command));
    }

    /// The command has ended, and was waited for. Its number may be that of any process.
    pub fn command_has_ended(&mut self) {
        self.command = None;
    }

    /// Sends a signal once to each process, parents before their children.
    ///
    /// Processes that are started meanwhile do not get it: some of them are started to clean up.
    pub fn signal(&self, signal: Signal) {
        self.members().iter().for_each(|member| member.signal(signal));
    }

    /// Sends a signal that we were told by to each process that has not got it from the kernel.
    pub fn pass_on(&self, told: Told) {
        let ours = unistd::getpgrp().as_raw();
        let members = self.members();
        let members = members.iter().filter(|member| !told.to_group || member.group != ours);
        members.for_each(|member| member.signal(told.signal));
    }

    /// Kills all processes. They are stopped before, so that none starts another one unseen.
    pub fn kill(&self) {
        let deadline = Instant::now() + STOPPING;
        let mut stopped = HashSet::new();
        loop {
            let members = self.members();
            let mut stand_still = true;
            for member in &members {
                let is_new = stopped.insert(member.identity);
                if is_new {
                    member.signal(Signal::STOP);
                }
                stand_still &= !is_new && member.stands_still;
            }
            if stand_still || Instant::now() >= deadline {
                return members.iter().for_each(|member| member.signal(Signal::KILL));
            }
            thread::sleep(PAUSE);
        }
    }

    /// Waits until one of the processes may have ended, but no longer than this.
    pub fn wait(&self, time: Duration) {
        match self.members().first() {
            Some(member) => member.wait(time),
            None => thread::sleep(PAUSE),
        }
    }

    /// Whether all processes have ended.
    pub fn has_ended(&self) -> bool {
        // A look can miss a process that is handed from one parent to another, but not twice.
        !has_children() || (self.members().is_empty() && self.members().is_empty())
    }

    /// Which processes are still there, for people.
    pub fn names(&self) -> Vec<String> {
        self.members().iter().map(ToString::to_string).collect()
    }

    /// Reaps the orphans that have become children of this process. It does not reap the command.
    pub fn reap(&self) {
        let all = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
        // Other threads see to the brokers that they start.
        let all = all | WaitPidFlag::__WNOTHREAD;
        while let Ok(status) = waitid(Id::All, all | WaitPidFlag::WNOWAIT) {
            let command = self.command.map(|pid| pid.as_raw_nonzero().get());
            let Some(pid) = status.pid().map(unistd::Pid::as_raw) else { return };
            // The caller waits for the command. Once it has ended this process soon ends too, and
            // need not reap the others.
            if Some(pid) == command || waitid(Id::Pid(unistd::Pid::from_raw(pid)), all).is_err() {
                return;
            }
        }
    }

    fn members(&self) -> Vec<Process> {
        let members = Processes::now().below_us(&self.strangers, self.mark);
        // Where `/proc` cannot be read.
        let command = self.command.filter(|_| members.is_empty()).map(Process::of_child);
        members.into_iter().chain(command).collect()
    }
}

/// Whether this process has children, including those that have ended.
fn has_children() -> bool {
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(rustix::process::waitid(WaitId::All, how), Err(Errno::CHILD))
}
