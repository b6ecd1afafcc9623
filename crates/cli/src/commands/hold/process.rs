//! The process whose end ends a hold.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal},
};

use crate::exit::{Failure, USAGE};

/// A process, and not a number that another one may have by now.
pub(super) struct Process {
    pid: Pid,
    descriptor: OwnedFd,
}

impl Process {
    /// The one that has this number now.
    ///
    /// # Errors
    ///
    /// If there is none, it has ended, or it cannot be watched.
    pub(super) fn open(pid: Pid) -> Result<Self, Failure> {
        let process = Self { pid, descriptor: open(pid)? };
        // Who has ended keeps its number until its parent has taken notice.
        if process.has_ended() { Err(ended(pid)) } else { Ok(process) }
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    pub(super) fn has_ended(&self) -> bool {
        let mut polled = [PollFd::new(&self.descriptor, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }

    /// Its program, or its script if that says by which program it is run. Empty if that is not known.
    pub(super) fn name(&self) -> String {
        let path = format!("/proc/{}/comm", self.pid.as_raw_nonzero());
        let name = std::fs::read_to_string(path).unwrap_or_default();
        name.trim_end_matches('\n').to_owned()
    }

    /// # Errors
    ///
    /// If it is not ours to send it signals.
    pub(super) fn check_signal(&self) -> Result<(), Failure> {
        match rustix::process::test_kill_process(self.pid) {
            Err(rustix::io::Errno::PERM) => Err(Failure::new(
                USAGE,
                format_args!(
                    "process {} belongs to another user and cannot be told of a loss; leave out \
                     --on-lost",
                    self.pid.as_raw_nonzero()
                ),
            )),
            _ => Ok(()),
        }
    }

    #[cfg(target_os = "linux")]
    pub(super) fn signal(&self, signal: Signal) {
        // It may have ended.
        let _ = rustix::process::pidfd_send_signal(&self.descriptor, signal);
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn signal(&self, signal: Signal) {
        let _ = rustix::process::kill_process(self.pid, signal);
    }
}

/// Readable when it has ended.
impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// What is said where it has ended.
pub(super) fn ended(pid: Pid) -> Failure {
    let pid = pid.as_raw_nonzero();
    Failure::new(USAGE, format_args!("process {pid} (--while-pid) has ended; nothing is held"))
}

#[cfg(target_os = "linux")]
fn open(pid: Pid) -> Result<OwnedFd, Failure> {
    use rustix::{
        io::Errno,
        process::{PidfdFlags, pidfd_open},
    };

    let number = pid.as_raw_nonzero();
    pidfd_open(pid, PidfdFlags::empty()).map_err(|error| match error {
        Errno::SRCH => Failure::new(
            USAGE,
            format_args!(
                "there is no process {number} (--while-pid): it has ended, or that is its number in \
                 another container; nothing is held"
            ),
        ),
        // Of a thread, systems say one or the other.
        Errno::INVAL | Errno::NOENT => {
            let said = "is a thread's number and no process's; nothing is held";
            Failure::new(USAGE, format_args!("{number} (--while-pid) {said}"))
        }
        error => Failure::new(
            crate::exit::UNREACHABLE,
            format_args!(
                "process {number} (--while-pid) cannot be watched: {error}; it needs Linux 5.3 or \
                 newer; use --ttl instead"
            ),
        ),
    })
}

#[cfg(not(target_os = "linux"))]
fn open(_: Pid) -> Result<OwnedFd, Failure> {
    Err(Failure::new(USAGE, "--while-pid needs Linux; use --ttl instead"))
}
