//! All that is below this process.

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
use crate::process::Signal;

/// How long it may take to stop all of them. Who starts others faster than they can be stopped is
/// killed as far as it is known, and again.
const STOPPING: Duration = Duration::from_millis(100);

/// How often it is looked whether all have stopped.
const PAUSE: Duration = Duration::from_millis(1);

/// All that is below us and was not there before the command.
///
/// Whoever is left behind by its parent comes to us, by the kernel: we are what it calls a subreaper.
/// So all that the command has started stays below us for as long as we live, daemons as well. When
/// we end they go on, and go to whoever is next, as without us.
///
/// It is looked for anew each time: between two looks some end and some begin. Nothing is found of
/// what works for the command and is not started by it, as a container's engine starts containers.
#[derive(Debug)]
pub struct Family {
    /// The variable that tells who is not of it.
    mark: &'static str,
    command: Option<Pid>,
    /// Who was below us before: a broker, or jobs of a shell that has become us.
    strangers: HashSet<Identity>,
}

impl Family {
    /// That of a command which is about to be started. Who has this variable is not of it, nor who is
    /// below those: a broker, which is everybody's.
    pub fn new(mark: &'static str) -> Self {
        // If the kernel knows no such thing, who is left behind is not found.
        let _ = set_child_subreaper(Some(getpid()));
        let below = if has_children() {
            Processes::now().below_us(&HashSet::new(), mark)
        } else {
            Vec::new()
        };
        let strangers = below.iter().map(|process| process.identity).collect();
        Self { mark, command: None, strangers }
    }

    /// From now on there is the command, which has not been waited for.
    pub fn begins(&mut self, command: &Child) {
        self.command = Some(Pid::from_child(command));
    }

    /// It has been waited for; its number may be anybody's.
    pub fn command_has_ended(&mut self) {
        self.command = None;
    }

    /// Sends a signal once to each, parents before their children.
    ///
    /// Not to those who are started meanwhile: to clean up is what some of them are started for.
    pub fn signal(&self, signal: Signal) {
        self.members().iter().for_each(|member| member.signal(signal));
    }

    /// Kills all. They are stopped before, so that nobody starts another one unseen.
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

    /// Waits until somebody has ended, but no longer than this.
    pub fn wait(&self, time: Duration) {
        match self.members().first() {
            Some(member) => member.wait(time),
            None => thread::sleep(PAUSE),
        }
    }

    /// Whether all have ended.
    pub fn has_ended(&self) -> bool {
        // A look can miss who is handed from one parent to another, but not twice.
        !has_children() || (self.members().is_empty() && self.members().is_empty())
    }

    /// Who is there still, for people.
    pub fn names(&self) -> Vec<String> {
        self.members().iter().map(ToString::to_string).collect()
    }

    /// Takes notice of the ends of those who were left to us. Not of the command's.
    pub fn reap(&self) {
        let all = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
        // Other threads see to the brokers that they start.
        let all = all | WaitPidFlag::__WNOTHREAD;
        while let Ok(status) = waitid(Id::All, all | WaitPidFlag::WNOWAIT) {
            let command = self.command.map(|pid| pid.as_raw_nonzero().get());
            let Some(pid) = status.pid().map(unistd::Pid::as_raw) else { return };
            // Then the rest is soon nobody's business.
            if Some(pid) == command || waitid(Id::Pid(unistd::Pid::from_raw(pid)), all).is_err() {
                return;
            }
        }
    }

    fn members(&self) -> Vec<Process> {
        let members = Processes::now().below_us(&self.strangers, self.mark);
        // Where `/proc` is not to be seen.
        let command = self.command.filter(|_| members.is_empty()).map(Process::of_child);
        members.into_iter().chain(command).collect()
    }
}

/// Whether there is a process that we are the parent of, be it one that has ended.
fn has_children() -> bool {
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(rustix::process::waitid(WaitId::All, how), Err(Errno::CHILD))
}
