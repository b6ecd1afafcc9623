//! What all subcommands take.

use std::path::PathBuf;

use clap::{
    Args, ColorChoice,
    builder::{OsStringValueParser, TypedValueParser},
};

/// The heading under which help shows what all subcommands take.
const COMMON: &str = "Common options";

/// What all subcommands take.
#[derive(Debug, Args)]
#[command(next_help_heading = COMMON)]
pub(crate) struct Common {
    /// The bucket in which names are looked up.
    ///
    /// The same name in two buckets is two locks.
    #[arg(
        long,
        global = true,
        env = "NAVLOCK_BUCKET",
        hide_env_values = true,
        default_value = "default",
        value_name = "NAME"
    )]
    pub(crate) bucket: String,

    /// The broker's socket, instead of the one that all processes of this user share.
    #[arg(
        long, global = true, env = "NAVLOCK_SOCKET", hide_env_values = true, value_name = "PATH",
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    pub(crate) socket: Option<PathBuf>,

    /// Print errors only.
    ///
    /// Nothing is printed while navlock waits for a lock, or when it does not get the lock in time.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Say what is being done.
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,

    /// When to use colours.
    ///
    /// "auto" uses colours on a terminal, unless `NO_COLOR` is set.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}
