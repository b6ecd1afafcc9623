//! The process whose end ends a hold.

use std::io::ErrorKind;

use navlock_platform::{
    process::{self, Handle, Signal, TELLS_OTHERS, is_beyond_signals},
    wait::{BorrowedSource, Source},
};

use crate::{
    args::OnLost,
    exit::{Failure, UNREACHABLE, USAGE},
};

/// A process itself, and not only an id, which another process may have by now.
pub(super) struct Process(Handle);

impl Process {
    /// The process that has this id now.
    ///
    /// # Errors
    ///
    /// If there is no such process, it has ended, or it cannot be watched.
    pub(super) fn open(number: u32) -> Result<Self, Failure> {
        let process = Self(open(number)?);
        // A process that has ended keeps its id until its parent has reaped it.
        if process.has_ended() { Err(ended(number)) } else { Ok(process) }
    }

    pub(super) fn number(&self) -> u32 {
        self.0.number()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// The program of the process, or its script, if the script names the program that runs it.
    /// Empty if this is not known.
    pub(super) fn name(&self) -> String {
        process::name(self.number())
    }

    /// # Errors
    ///
    /// If this user may not send signals to the process, or if the system has no signal that would
    /// tell it to end.
    pub(super) fn check_signal(&self, on_lost: OnLost) -> Result<(), Failure> {
        if on_lost == OnLost::Terminate && !TELLS_OTHERS {
            let said = "--on-lost term is not to be had on this system, where nobody can tell a process to \
                        end that it has not started; give --on-lost kill, or leave it out";
            return Err(Failure::new(USAGE, said));
        }
        let number = self.number();
        if !is_beyond_signals(number) {
            return Ok(());
        }
        let said = "belongs to another user and cannot be told of a loss; leave out --on-lost";
        Err(Failure::new(USAGE, format_args!("process {number} {said}")))
    }

    /// Sends the signal that was asked for, if one was.
    pub(super) fn tell_of_loss(&self, on_lost: OnLost) {
        match on_lost {
            OnLost::Terminate => self.0.signal(Signal::TERMINATE),
            OnLost::Kill => self.0.signal(Signal::KILL),
            OnLost::Ignore => {}
        }
    }

    /// Readable when the process has ended.
    pub(super) fn source(&self) -> BorrowedSource<'_> {
        self.0.source()
    }
}

/// The failure that says that the process has ended.
pub(super) fn ended(number: u32) -> Failure {
    Failure::new(USAGE, format_args!("process {number} (--while-pid) has ended; nothing is held"))
}

fn open(number: u32) -> Result<Handle, Failure> {
    Handle::open(number).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::new(
            USAGE,
            format_args!(
                "there is no process {number} (--while-pid): it has ended, or that is its number in \
                 another container; nothing is held"
            ),
        ),
        ErrorKind::InvalidInput => {
            let said = "is a thread's number and no process's; nothing is held";
            Failure::new(USAGE, format_args!("{number} (--while-pid) {said}"))
        }
        _ => Failure::new(
            UNREACHABLE,
            format_args!(
                "process {number} (--while-pid) cannot be watched: {error}; it needs Linux 5.3 or \
                 newer; use --ttl instead"
            ),
        ),
    })
}
