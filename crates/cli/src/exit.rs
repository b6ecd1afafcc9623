//! How `navlock` ends: the exit codes and the words that go with them.

use std::{
    fmt,
    io::{self, Write},
    process::ExitCode,
};

use clap::error::ErrorKind;
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
            Error::TimedOut => CONFLICT,
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

/// Shows help where it was asked for, or where nothing was; else says what is wrong with the
/// arguments.
pub(crate) fn after_clap(shown: &clap::Error) -> ExitCode {
    if !shown.use_stderr() {
        let _ = shown.print();
        return ExitCode::SUCCESS;
    }
    if shown.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = shown.print();
    } else {
        say(one_line(shown, std::env::args().nth(1).as_deref()));
    }
    USAGE.into()
}

/// What is wrong, without the usage and the tips that follow after an empty line.
fn one_line(error: &clap::Error, subcommand: Option<&str>) -> String {
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    let line = lines.collect::<Vec<_>>().join(" ");
    let what = line.strip_prefix("error: ").unwrap_or(&line);
    let help = match subcommand {
        Some(name @ ("run" | "query")) => format!("navlock {name} --help"),
        _ => "navlock --help".to_owned(),
    };
    format!("{what}; see '{help}'")
}
