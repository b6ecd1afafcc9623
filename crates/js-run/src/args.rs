//! What the program is started with.

use std::{env, path::PathBuf, process::ExitCode};

use clap::{Parser, ValueEnum};

use crate::vm::Engine;

/// Runs a script with navigator.locks, timers and console on a JavaScript engine embedded into Rust.
#[derive(Parser)]
#[command(name = "navlock-js-run", version)]
pub(crate) struct Args {
    /// The engine
    #[arg(long, value_enum, default_value_t = Engine::first())]
    pub(crate) engine: Engine,
    /// Who sees the locks: this process alone, or all processes of the user on this machine. The default is
    /// the value of `NAVLOCK_REACH`, or else machine
    #[arg(long, value_enum)]
    reach: Option<Reach>,
    /// The bucket: programs in different buckets never see each other's locks. The default is the value of
    /// `NAVLOCK_BUCKET`, or else default
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// An ECMAScript module
    pub(crate) script: PathBuf,
    /// What the script finds in `runtime.arguments`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<String>,
}

/// Who sees the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reach {
    Process,
    Machine,
}

impl Args {
    /// # Errors
    ///
    /// What stands in `NAVLOCK_REACH` is no reach.
    pub(crate) fn reach(&self) -> Result<Reach, String> {
        match (self.reach, set("NAVLOCK_REACH")) {
            (Some(reach), _) => Ok(reach),
            (None, None) => Ok(Reach::Machine),
            (None, Some(word)) => Reach::from_str(&word, false)
                .map_err(|_| format!("NAVLOCK_REACH is {word:?}: it must be process or machine")),
        }
    }

    pub(crate) fn bucket(&self) -> String {
        let given = self.bucket.clone().or_else(|| set("NAVLOCK_BUCKET"));
        given.unwrap_or_else(|| "default".to_owned())
    }
}

/// A variable of the environment. An empty variable counts as none.
pub(crate) fn set(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// # Errors
///
/// Gives the exit code of the program, after the error or the help was shown.
pub(crate) fn parse() -> Result<Args, ExitCode> {
    Args::try_parse().map_err(|shown| {
        // If the message cannot be shown, there is nobody to tell.
        let _ = shown.print();
        ExitCode::from(u8::try_from(shown.exit_code()).unwrap_or(2))
    })
}
