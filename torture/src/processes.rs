//! Processes, as /proc shows them. In a run's own PID namespace there are no other processes.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// The ids of all processes.
pub(crate) fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The words of a process's command line.
pub(crate) fn words(pid: i32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|&byte| byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// A variable that the process was started with.
pub(crate) fn variable(pid: i32, name: &str) -> Option<String> {
    let variables = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = variables.split(|&byte| byte == 0);
    variables.find_map(|variable| {
        let (found, value) = std::str::from_utf8(variable).ok()?.split_once('=')?;
        (found == name).then(|| value.to_owned())
    })
}

/// Whether the process runs or is stopped, and has not been killed. A killed process does nothing any more,
/// though its files may be open for a while.
pub(crate) fn lives(pid: i32) -> bool {
    const EXITING: u64 = 0x4;
    const KILL: u64 = 1 << 8;
    let Some((state, flags)) = stat(pid) else {
        return false;
    };
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pending = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0) & KILL != 0
    };
    !matches!(state, 'Z' | 'X')
        && flags & EXITING == 0
        && !pending("SigPnd:")
        && !pending("ShdPnd:")
}

/// Whether nothing of the process is left but, perhaps, its exit code.
pub(crate) fn is_gone(pid: i32) -> bool {
    stat(pid).is_none_or(|(state, _)| matches!(state, 'Z' | 'X'))
}

/// The process that has started or adopted this one.
pub(crate) fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..].split_whitespace().nth(1)?.parse().ok()
}

/// The state and the flags of a process.
fn stat(pid: i32) -> Option<(char, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(5)?.parse().ok()?))
}

/// The memory of a process in KiB, and how many descriptors it has open.
pub(crate) fn size(pid: i32) -> Option<(u64, usize)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let memory = memory.split_whitespace().next()?.parse().ok()?;
    Some((memory, fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count()))
}

/// What the process does at present, for people.
pub(crate) fn describe(pid: i32) -> String {
    let state = stat(pid).map_or('-', |(state, _)| state);
    let at = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    format!("{pid} {state} {at} {}", words(pid).join(" "))
}

/// The processes that have locked this file with flock(2): all of them, or only exclusive lockers.
pub(crate) fn lockers(inode: u64, alone: bool) -> Vec<i32> {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let locker = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let ["FLOCK", _, how, pid, file, ..] = fields.get(1..)? else { return None };
        if alone && *how != "WRITE" {
            return None;
        }
        let found: u64 = file.rsplit(':').next()?.parse().ok()?;
        (found == inode).then(|| pid.parse().ok())?
    };
    locks.lines().filter_map(locker).collect()
}

/// The processes that have this file open in a description that has locked it: a file that was inherited
/// keeps the lock of its first process, whose number /proc/locks shows.
pub(crate) fn keepers(inode: u64) -> Vec<i32> {
    let is_locked = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let file = (fields.get(2) == Some(&"FLOCK")).then(|| fields.get(6)).flatten();
        file.and_then(|file| file.rsplit(':').next()?.parse().ok()) == Some(inode)
    };
    let keeps = |pid: &i32| {
        let files = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
        let mut texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
        texts.any(|text| text.lines().any(is_locked))
    };
    all().into_iter().filter(keeps).collect()
}

/// Whether this is still the process of a command, and not another process that got its number.
pub(crate) fn is_command(pid: i32) -> bool {
    !is_gone(pid) && words(pid).get(1).is_some_and(|word| word == "command")
}

pub(crate) fn signal(pid: i32, signal: Signal) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| kill_process(pid, signal).is_ok())
}
