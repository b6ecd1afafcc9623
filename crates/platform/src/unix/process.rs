//! Processes: whether they live, who has started whom, and signals to them.
//!
//! A number alone may be anybody's by now. A [`Handle`] is opened while the process provably is the
//! one that is meant, and refers to this process from then on: on Linux it is a pidfd, on Apple's
//! systems an event of kqueue(2), elsewhere there is none.

#[cfg(target_vendor = "apple")]
mod apple;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
mod none;
mod open_files;
mod signal;

use std::{
    ffi::OsStr,
    fs, io,
    process::{Child, ExitStatus},
};

use rustix::process::Pid;

use crate::user::UserId;

#[cfg(target_vendor = "apple")]
pub use self::apple::Handle;
#[cfg(target_os = "linux")]
pub use self::linux::Handle;
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub use self::none::Handle;
pub use self::{
    open_files::{has_open, open_from, open_of},
    signal::Signal,
};

/// Sends a signal to a child that was not waited for, so that the number is still its own. It may have
/// ended on its own.
pub fn signal_child(child: &Child, signal: Signal) {
    if let Some(signal) = signal.raw() {
        let _ = rustix::process::kill_process(Pid::from_child(child), signal);
    }
}

/// Whether a child that was not waited for has ended. This does not reap the child.
pub fn child_has_ended(child: &Child) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    matches!(waitid(WaitId::Pid(Pid::from_child(child)), how), Ok(Some(_)))
}

/// The number of the signal that has ended the process, if one has.
pub fn ended_by(status: ExitStatus) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    status.signal()
}

/// Whether the system forbids this process to send signals to the one of this number.
pub fn is_beyond_signals(number: u32) -> bool {
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    let test = |pid| rustix::process::test_kill_process(pid);
    pid.is_some_and(|pid| test(pid) == Err(rustix::io::Errno::PERM))
}

/// Whether there is a process of this number.
pub fn exists(number: u32) -> bool {
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    let test = |pid| rustix::process::test_kill_process(pid);
    pid.is_some_and(|pid| test(pid) != Err(rustix::io::Errno::SRCH))
}

/// Whose process has this number; `None` if there is none, or that cannot be seen.
pub fn user_of(number: u32) -> Option<UserId> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(format!("/proc/{number}")).ok().map(|found| found.uid())
}

/// The process that has started this one, or 0 if that cannot be seen.
pub fn parent() -> u32 {
    rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get().unsigned_abs())
}

/// What the system says of a process of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Whether it is stopped until it is told to go on.
    pub is_stopped: bool,
    /// Who has started it.
    pub parent: u32,
}

/// What the system says of the process of this number; `None` if it does not, or there is none.
pub fn seen(number: u32) -> Option<Seen> {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The program's name is in brackets, and may have brackets in it.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let is_stopped = matches!(fields.next()?, "T" | "t");
    Some(Seen { is_stopped, parent: fields.next()?.parse().ok()? })
}

/// The value of the variable of this name with which the process was started, as far as that can be seen.
pub fn variable(number: u32, name: &str) -> Option<String> {
    let environment = std::fs::read(format!("/proc/{number}/environ")).ok()?;
    let mut entries = environment.split(|byte| *byte == 0);
    let value =
        entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Whether a process that was not started by this one can be asked to end, and not only be killed.
#[cfg(feature = "command")]
pub const TELLS_OTHERS: bool = true;

/// The program of a process, or its script if that says by which program it is run. Empty if that is
/// not known.
#[cfg(target_vendor = "apple")]
pub fn name(number: u32) -> String {
    apple::name(number)
}

/// The program of a process, or its script if that says by which program it is run. Empty if that is
/// not known.
#[cfg(not(target_vendor = "apple"))]
pub fn name(number: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{number}/comm")).unwrap_or_default();
    name.trim_end_matches('\n').to_owned()
}

/// Leaves the terminal and the process group of whoever has started this process. Nothing happens
/// if this process leads a group already.
pub fn leave_terminal() {
    let _ = rustix::process::setsid();
}

/// Replaces this process by a command. Returns only if that fails, with the reason.
pub fn execute(command: &mut std::process::Command) -> io::Error {
    use std::os::unix::process::CommandExt;
    command.exec()
}

/// Has a command start in a process group of its own: what interrupts us is not meant for it.
pub fn set_apart(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

/// Keeps a program that everybody uses, a broker, from ending with whoever happens to start it.
/// Here the program sees to that itself.
pub fn let_go(_: &mut std::process::Command) {}

/// Whether a program needs this variable to be started at all. Here it needs none.
pub fn is_needed(_: &OsStr) -> bool {
    false
}

/// Commands that open a file with the program that the user prefers, to be tried in this order.
pub const OPENERS: &[&str] = if cfg!(target_vendor = "apple") {
    &["open"]
} else {
    // The last is for Linux within Windows.
    &["xdg-open", "gio open", "wslview"]
};

/// The PID namespace of this process, by the number of its inode: numbers of processes mean
/// something only in the namespace in which they were seen. `None` where there are no namespaces,
/// or this cannot be told.
pub fn namespace() -> Option<u64> {
    crate::file::identity_behind("/proc/self/ns/pid".as_ref()).ok().map(|(_, inode)| inode)
}

/// How nice this process is to others (nice(2)).
pub fn niceness() -> Option<i32> {
    rustix::process::getpriority_process(None).ok()
}

#[cfg(all(test, any(target_os = "linux", target_vendor = "apple")))]
mod tests {
    use std::{
        process::{Command, Stdio},
        time::Duration,
    };

    use super::*;

    #[test]
    fn the_end_of_a_process_is_seen_whoever_waits_for_it() {
        let mut command = Command::new("cat");
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let process = Handle::of_child(&child).unwrap();
        assert_eq!((process.number(), process.parent()), (child.id(), Some(std::process::id())));
        assert_eq!(name(child.id()), "cat");
        assert!(!process.has_ended());
        process.signal(Signal::KILL);
        // It is not waited for yet, by anybody.
        assert!(process.ends_within(Duration::from_secs(20)) && process.has_ended());
        assert_eq!(ended_by(child.wait().unwrap()), Some(Signal::KILL.number()));
        assert!(process.has_ended());
        assert_eq!(process.parent(), None);
        assert_eq!(Handle::open(child.id()).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
