//! The arguments of `navlock daemon` and of its subcommands.

use std::time::Duration;

use clap::{Args, Subcommand};
use navlock::ResourceName;

use super::{
    settings::{self, SettingsArgs},
    values,
};

/// After how many seconds without a client the broker ends, if nobody says otherwise.
const IDLE_SECS: &str = "30";

/// The broker itself, which clients start when they need it.
#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    #[command(subcommand)]
    pub(crate) command: DaemonCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    Run(DaemonRunArgs),
    /// Starts the broker if it is not running.
    Start,
    /// Ends the broker. Clients that are there start another one and keep their locks.
    Stop,
    Status(StatusArgs),
    Logs(LogsArgs),
    LogLevel(LogLevelArgs),
    /// Shows what the broker has counted, as Prometheus reads it.
    ///
    /// Exit codes: 0, or 69 if no broker runs.
    Metrics,
}

/// Runs the broker until it has had no client for a while.
///
/// It writes "ready" as a line once it listens, and then leaves its input, its output and its
/// session, so that it does not end with the terminal. It logs to its error stream; one that a client
/// has started leaves that too, and logs into a file: see 'navlock daemon logs'. Service managers are
/// told that it is ready (`sd_notify`), and may pass it its socket (`LISTEN_FDS`).
#[derive(Debug, Args)]
#[command(after_long_help = settings::HELP)]
pub(crate) struct DaemonRunArgs {
    /// End after this many seconds without a client.
    #[arg(
        long, env = "NAVLOCK_IDLE_SECS", hide_env_values = true, default_value = IDLE_SECS,
        value_name = "SECS", value_parser = idle_seconds, allow_negative_numbers = true
    )]
    pub(crate) idle_seconds: Duration,

    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
}

/// Shows what brokers have logged that clients have started.
///
/// Their log is a file beside the socket; when it is full, it becomes its predecessor, so that a
/// megabyte is kept at most. What broke inside a broker stands in it too, and 'navlock doctor' keeps it
/// for longer. A broker that is run on purpose logs to its error stream: for systemd's see journalctl.
#[derive(Debug, Args)]
#[command(after_long_help = "\
What is logged is said by log in the file of settings, or by NAVLOCK_LOG, for brokers that are
started from there on: see 'navlock daemon run --help'. Names of locks are in it at the levels debug
and trace only, if nobody asks for them. Times are in UTC.")]
pub(crate) struct LogsArgs {
    /// Go on showing new lines until it is interrupted.
    ///
    /// Lines of brokers that are started later are shown as well.
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Show only the last lines, this many.
    #[arg(short = 'n', long, value_name = "LINES")]
    pub(crate) lines: Option<usize>,
}

/// Has the broker that runs log more or less, until it ends.
///
/// For brokers that are started later there is log in the file of settings: see 'navlock daemon run
/// --help'. Exit codes: 0; 64 if that is no level; 69 if no broker runs.
#[derive(Debug, Args)]
pub(crate) struct LogLevelArgs {
    /// The level: off, error, warn, info, debug or trace.
    ///
    /// A part of the broker can have a level of its own: write TARGET=LEVEL after a comma, as in
    /// `info,navlock::etcd=debug`.
    pub(crate) level: String,
}

/// Shows how the broker is.
///
/// Exit codes: 0 if it runs, 69 if it does not.
#[derive(Debug, Args)]
#[command(after_long_help = "\
With --json: running, socket; and if it runs pid, release, ageMs, clients, orphans, held,
pending, reach (if locks are seen beyond this machine), details (words for people, which may
change), log (file, if it logs into one, and filter), lastEnds (of sessions: agoMs, pid, why),
numbers (what it has counted since it began, by names) and waits (how long requests have waited
until they were granted: bounds, each with upToSeconds and count; longer, the count of all
others; sumSeconds). 'navlock daemon metrics' has the numbers as Prometheus reads them.")]
pub(crate) struct StatusArgs {
    /// Write one JSON object.
    #[arg(long)]
    pub(crate) json: bool,

    /// Say as well on which etcd cluster a lock of this name is, if the broker has several.
    #[arg(long, value_name = "NAME", value_parser = values::name())]
    pub(crate) name: Option<ResourceName>,
}

/// As for any variable, to be empty is to be unset.
fn idle_seconds(text: &str) -> Result<Duration, String> {
    values::seconds(if text.is_empty() { IDLE_SECS } else { text })
        .map_err(|wrong| format!("{wrong}, or unset NAVLOCK_IDLE_SECS"))
}

/// What is wrong with a value of `NAVLOCK_IDLE_SECS`, if anything is.
pub(crate) fn idle_seconds_error(text: &str) -> Option<String> {
    idle_seconds(text).err()
}
