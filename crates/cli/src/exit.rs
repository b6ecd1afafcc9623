//! How `navlock` ends: the exit codes and the words that go with them.

use std::{
    fmt,
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use navlock::Error;
use navlock_platform::wait::{self, Interest, Source};

/// The lock could not be had, and that is what was asked: `-n`, `-w`.
pub(crate) const CONFLICT: u8 = 1;
/// `EX_USAGE` of `sysexits.h`.
pub(crate) const USAGE: u8 = 64;
/// `EX_UNAVAILABLE`: there is no broker to be had.
pub(crate) const UNREACHABLE: u8 = 69;
/// `EX_TEMPFAIL`: the lock was lost, and the command ended for it.
pub(crate) const LOST: u8 = 75;
/// The command is there and cannot be executed, as shells say it.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command is not there, as shells say it.
pub(crate) const NOT_FOUND: u8 = 127;
/// More than this by the number of the signal that ended the command.
pub(crate) const SIGNALLED: u8 = 128;

/// An end that is not the command's own: a code, and why.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    /// What happened, to what, and what to do; `None` if the code says it.
    message: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl fmt::Display) -> Self {
        Self { code, message: Some(message.to_string()) }
    }

    /// An end that was asked for, or has been told of already.
    pub(crate) fn silent(code: u8) -> Self {
        Self { code, message: None }
    }

    /// The answer could not be written; if whoever read it has seen enough, that is no failure.
    pub(crate) fn of_writing(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::silent(0),
            _ => Self::new(1, format_args!("cannot write the answer: {error}")),
        }
    }

    /// What the process ends with.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// What is said, if anything is.
    #[cfg(feature = "web")]
    pub(crate) fn message(&self) -> &str {
        self.message.as_deref().unwrap_or_default()
    }

    /// Says it on the error stream.
    pub(crate) fn report(self) -> ExitCode {
        if let Some(message) = self.message {
            say(message);
        }
        self.code.into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Unreachable(_) => UNREACHABLE,
            Error::Lost(_) | Error::Terminated | Error::Closed => LOST,
            Error::TimedOut | Error::Deadlock(_) => CONFLICT,
            // What is left is wrong in what was asked, as what the broker has refused is.
            _ => USAGE,
        };
        Self::new(code, error)
    }
}

/// Says something on the error stream. If nobody reads it, nobody misses it.
pub(crate) fn say(message: impl fmt::Display) {
    // In one piece: others write to the same terminal.
    let _ = io::stderr().write_all(format!("navlock: {message}\n").as_bytes());
}

/// Writes something to the error stream if there is room for it now: for one who has more to do
/// than to be heard, and must not wait for a reader who has gone to sleep.
pub(crate) fn mention(text: &[u8]) {
    let stderr = io::stderr();
    let now = wait::wait([(stderr.source(), Interest::WRITE)], Some(Duration::ZERO));
    // A pipe that has any room has it for a page, and what is said here is shorter than that.
    if now.is_ok_and(|[stderr]| stderr.writable) {
        let _ = io::stderr().write_all(text);
    }
}
