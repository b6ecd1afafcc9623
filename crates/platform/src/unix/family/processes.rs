//! The processes that exist, and which is whose parent.

use std::{
    collections::{HashMap, HashSet},
    fmt, fs,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    thread,
    time::Duration,
};

use nix::unistd::{Uid, User};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, getpid, kill_process, pidfd_open, pidfd_send_signal},
};

use crate::process::{Signal, is_beyond_signals};

/// What tells a process from all others: its number, which another process may have later, and the time at
/// which it began, in ticks since the start of the machine.
pub(super) type Identity = (i32, u64);

/// A process that was alive a moment ago.
pub(super) struct Process {
    pub(super) identity: Identity,
    /// Its process group.
    pub(super) group: i32,
    /// Whether the process was stopped.
    pub(super) stands_still: bool,
    /// Through this a signal for the process cannot reach a stranger that was given its number since. `None`
    /// if there is no descriptor left.
    descriptor: Option<OwnedFd>,
}

impl Process {
    /// The process, if it is still the one that was listed. `None` if that has ended since.
    fn new(listed: &Listed) -> Option<Self> {
        let descriptor = pidfd_open(Pid::from_raw(listed.pid)?, PidfdFlags::empty()).ok();
        let same = Listed::read(listed.pid).filter(|now| now.start == listed.start)?;
        let (identity, stands_still) = ((same.pid, same.start), same.stands_still());
        let group = same.group;
        (!same.has_ended()).then_some(Self { identity, group, stands_still, descriptor })
    }

    /// A child of ours, which was not waited for.
    pub(super) fn of_child(pid: Pid) -> Self {
        let descriptor = pidfd_open(pid, PidfdFlags::empty()).ok();
        let pid = pid.as_raw_nonzero().get();
        Self { identity: (pid, 0), group: pid, stands_still: true, descriptor }
    }

    /// Sends a signal to the process, which may have ended, and to which we may not be allowed to send
    /// signals.
    pub(super) fn signal(&self, signal: Signal) {
        let (pid, start) = self.identity;
        let Some(signal) = signal.raw() else { return };
        if let Some(descriptor) = &self.descriptor {
            let _ = pidfd_send_signal(descriptor, signal);
        } else if start == 0 || Listed::read(pid).is_some_and(|now| now.start == start) {
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, signal));
        }
    }

    /// Waits until the process has ended, but no longer than this.
    pub(super) fn wait(&self, time: Duration) {
        let Some(descriptor) = &self.descriptor else {
            return thread::sleep(time.min(Duration::from_millis(20)));
        };
        let timeout = Timespec::try_from(time).ok();
        let _ = poll(&mut [PollFd::new(descriptor, PollFlags::IN)], timeout.as_ref());
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pid, _) = self.identity;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        write!(f, "{}[{pid}]", name.trim_end())?;
        if !is_beyond_signals(pid.unsigned_abs()) {
            return Ok(());
        }
        let owner = fs::metadata(format!("/proc/{pid}")).map_or(0, |process| process.uid());
        match User::from_uid(Uid::from_raw(owner)) {
            _ if owner == 0 => f.write_str(" (only root can end it)"),
            Ok(Some(user)) => write!(f, " (only {} and root can end it)", user.name),
            _ => write!(f, " (only user {owner} and root can end it)"),
        }
    }
}

/// What is known of a process from a list of all processes.
#[derive(Clone, Copy)]
struct Listed {
    pid: i32,
    parent: i32,
    group: i32,
    state: u8,
    threads: u32,
    start: u64,
}

impl Listed {
    fn read(pid: i32) -> Option<Self> {
        Self::parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads `/proc/PID/stat` (`proc_pid_stat(5)`).
    fn parse(pid: i32, stat: &[u8]) -> Option<Self> {
        // The name, which is the second field, may contain anything.
        let end = stat.iter().rposition(|&byte| byte == b')')?;
        let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |nth: usize| fields.get(nth - 3).copied();
        Some(Self {
            pid,
            parent: field(4)?.parse().ok()?,
            group: field(5)?.parse().ok()?,
            state: *field(3)?.as_bytes().first()?,
            threads: field(20)?.parse().ok()?,
            start: field(22)?.parse().ok()?,
        })
    }

    /// Whether the whole process has ended: its first thread may have, while others work on.
    fn has_ended(self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x') && self.threads <= 1
    }

    fn stands_still(self) -> bool {
        matches!(self.state, b'T' | b't')
    }
}

/// All processes that can be seen, as they were found one after the other.
pub(super) struct Processes(Vec<Listed>);

impl Processes {
    /// The processes that there are now; none if there is no `/proc`.
    pub(super) fn now() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten();
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut all: Vec<Listed> = pids.filter_map(Listed::read).collect();
        let known: HashSet<i32> = all.iter().map(|process| process.pid).collect();
        // A process whose parent has ended before it was read has another parent by now.
        for process in &mut all {
            if !known.contains(&process.parent) {
                *process = Listed::read(process.pid).unwrap_or(*process);
            }
        }
        Self(all)
    }

    /// The processes below this one, parents before their children. Left out are the strangers, every process
    /// that has this variable, and all processes below either.
    pub(super) fn below_us(self, strangers: &HashSet<Identity>, mark: &str) -> Vec<Process> {
        let mut children: HashMap<i32, Vec<Listed>> = HashMap::new();
        for process in self.0 {
            children.entry(process.parent).or_default().push(process);
        }
        let mut found = Vec::new();
        let mut parents = vec![getpid().as_raw_nonzero().get()];
        while !parents.is_empty() {
            // Each process is taken once, even if numbers went from one process to another while they were
            // read.
            let below = parents.iter().filter_map(|parent| children.remove(parent)).flatten();
            let below: Vec<Listed> = below
                .filter(|process| !strangers.contains(&(process.pid, process.start)))
                .filter(|process| !is_marked(process.pid, mark))
                .collect();
            parents = below.iter().map(|process| process.pid).collect();
            found.extend(below.iter().filter_map(Process::new));
        }
        found
    }
}

fn is_marked(pid: i32, mark: &str) -> bool {
    let is_mark = |variable: &[u8]| {
        variable.strip_prefix(mark.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
    };
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|&byte| byte == 0).any(is_mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_have_any_name() {
        let rest = "S 7 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 4242 1 1";
        for name in ["sh", "a b", ") R 9 (", "\u{fffd}", "()"] {
            let listed = Listed::parse(5, format!("5 ({name}) {rest}\n").as_bytes()).unwrap();
            let Listed { parent, state, threads, start, .. } = listed;
            assert_eq!((parent, state, threads, start), (7, b'S', 3, 4242), "{name}");
        }
        assert!(Listed::parse(5, b"5 (sh) S 7").is_none() && Listed::parse(5, b"").is_none());
    }

    #[test]
    fn a_process_with_threads_left_has_not_ended() {
        let read =
            |state: u8, threads| Listed { pid: 5, parent: 7, group: 5, state, threads, start: 1 };
        assert!(!read(b'Z', 2).has_ended() && !read(b'S', 1).has_ended());
        assert!(read(b'Z', 1).has_ended());
    }
}
