//! How `navlock` ends: the exit codes and the words that go with them.

use std::{
    fmt,
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use navlock::Error;
use navlock_platform::{
    terminal,
    wait::{self, Interest, Source},
};

use crate::terminal::write_out;

/// The lock could not be acquired, and the arguments (`-n`, `-w`) allow for that.
pub(crate) const CONFLICT: u8 = 1;
/// `EX_USAGE` of `sysexits.h`.
pub(crate) const USAGE: u8 = 64;
/// `EX_UNAVAILABLE`: no broker can be reached.
pub(crate) const UNREACHABLE: u8 = 69;
/// `EX_SOFTWARE`: a script asks for a lock inside which it runs, and would wait for itself.
pub(crate) const OWN_LOCK: u8 = 70;
/// `EX_TEMPFAIL`: a lock was lost. For that reason a command of `navlock run` was ended, or not started.
pub(crate) const LOST: u8 = 75;
/// The command exists and cannot be executed. Shells use this code as well.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command does not exist. Shells use this code as well.
pub(crate) const NOT_FOUND: u8 = 127;
/// If a signal has ended the command, the code is this number plus the number of the signal.
pub(crate) const SIGNALLED: u8 = 128;

/// An end that is not the command's own: a code, and the reason.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    /// What happened, to what, and what to do. `None` if the code says enough.
    message: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl fmt::Display) -> Self {
        Self { code, message: Some(message.to_string()) }
    }

    /// An end that was asked for, or of which people were told already.
    pub(crate) fn silent(code: u8) -> Self {
        Self { code, message: None }
    }

    /// The failure for output that could not be written. If the reader has seen enough and has
    /// gone, this is no failure.
    fn of_writing(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::silent(0),
            _ => Self::new(1, format_args!("cannot write the answer: {error}")),
        }
    }

    /// The exit code of the process.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// The message, or an empty text.
    #[cfg(feature = "web")]
    pub(crate) fn message(&self) -> &str {
        self.message.as_deref().unwrap_or_default()
    }

    /// Writes the message to the error stream.
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
            Error::TimedOut(_) | Error::Deadlock(_) => CONFLICT,
            // All other errors are errors in the arguments. A request that the broker has refused
            // counts as such an error.
            _ => USAGE,
        };
        Self::new(code, error)
    }
}

/// Writes what a command was asked for to the output stream: its success.
pub(crate) fn answer(text: impl AsRef<[u8]>) -> Result<ExitCode, Failure> {
    write_out(text.as_ref()).map_err(|error| Failure::of_writing(&error))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a message to the error stream. An error is ignored, because it means that nobody reads
/// the message.
pub(crate) fn say(message: impl fmt::Display) {
    // The message is written in one piece, because others write to the same terminal.
    let _ = write(format!("navlock: {message}\n").as_bytes());
}

/// Writes a message like [`say`], but only if there is room for it now.
pub(crate) fn mention(message: impl fmt::Display) {
    mention_bytes(format!("navlock: {message}\n").as_bytes());
}

/// Writes to the error stream if there is room for it now. This is for a caller that has other work, and must
/// not wait for a reader that does not read.
pub(crate) fn mention_bytes(text: &[u8]) {
    let stderr = io::stderr();
    let now = wait::wait([(stderr.source(), Interest::WRITE)], Some(Duration::ZERO));
    // A pipe with any room has room for a page, and these messages are shorter than that.
    if now.is_ok_and(|[stderr]| stderr.writable) {
        let _ = write(text);
    }
}

/// Writes to the error stream. The terminal does not stop this process, even if it stops programs in the
/// background that write (`stty tostop`).
fn write(text: &[u8]) -> io::Result<()> {
    terminal::unstopped(|| io::stderr().write_all(text))
}
