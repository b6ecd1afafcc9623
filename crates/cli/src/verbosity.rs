//! How many messages are written to the error stream.

use std::fmt::Display;

use crate::{args::Common, exit::say};

/// What `-q` and `-v` chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Writes only errors.
    Quiet,
    Usual,
    /// Also writes what is being done.
    Verbose,
}

impl Verbosity {
    pub(crate) fn of(common: &Common) -> Self {
        match common {
            Common { quiet: true, .. } => Self::Quiet,
            Common { verbose: true, .. } => Self::Verbose,
            _ => Self::Usual,
        }
    }

    /// Whether all messages are wanted.
    pub(crate) fn is_verbose(self) -> bool {
        self == Self::Verbose
    }

    /// Writes a message that people may want to know.
    pub(crate) fn tell(self, message: impl Display) {
        if self != Self::Quiet {
            say(message);
        }
    }

    /// Writes a message about what is being done, if the user has asked for such messages.
    pub(crate) fn detail(self, message: impl Display) {
        if self == Self::Verbose {
            say(message);
        }
    }
}
