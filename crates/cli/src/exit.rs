//! How `navlock` ends: the exit codes and the words that go with them.

use std::{fmt, process::ExitCode};

use navlock::Error;

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

    /// The end that was asked for by `-n`, which needs no words.
    pub(crate) fn conflict() -> Self {
        Self { code: CONFLICT, message: None }
    }

    /// Says it on the error stream.
    pub(crate) fn report(self) -> ExitCode {
        if let Some(message) = self.message {
            eprintln!("navlock: {message}");
        }
        self.code.into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Unreachable(_) => UNREACHABLE,
            Error::Lost(_) | Error::Terminated | Error::Closed => LOST,
            Error::TimedOut => CONFLICT,
            // What is left is wrong in what was asked.
            _ => USAGE,
        };
        Self::new(code, error)
    }
}

/// Shows help where it was asked for, and what is wrong with the arguments where something is.
pub(crate) fn after_clap(shown: &clap::Error) -> ExitCode {
    // If nobody reads it, nobody misses it.
    let _ = shown.print();
    if shown.use_stderr() { USAGE.into() } else { ExitCode::SUCCESS }
}
