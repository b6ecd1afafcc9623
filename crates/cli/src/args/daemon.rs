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
    /// Ends the broker.
    ///
    /// Connected clients start another broker and keep their locks.
    ///
    /// Exit codes: 0 if the broker has ended or none runs; 1 if it does not end; 69 if it cannot be asked.
    Stop,
    Status(StatusArgs),
    Logs(LogsArgs),
    LogLevel(LogLevelArgs),
    /// Prints the broker's numbers for Prometheus.
    ///
    /// Exit codes: 0, or 69 if no broker runs.
    Metrics,
}

/// Runs the broker until it has had no client for a while.
///
/// The broker leaves the session of its starter, so that it does not end with the terminal. It stays in the
/// session if it leads a process group, as when a user starts it in a shell. When the broker listens, it
/// writes the line "ready", and then closes its input and its output.
///
/// The broker logs to its error stream. A broker that a client has started closes that stream too, and logs
/// into a file: see 'navlock daemon logs'.
///
/// The broker tells a service manager that it is ready (`sd_notify`). The service manager may pass the socket
/// to it (`LISTEN_FDS`).
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

/// Shows the log of brokers that clients have started.
///
/// These brokers log into a file beside the socket. The file grows to half a megabyte, and one older file is
/// kept. A panic inside a broker is logged, and is also recorded in a file that is kept for longer. This
/// command and 'navlock doctor' report that file.
///
/// A broker that is run on purpose logs to its error stream. For a broker of systemd, see journalctl.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The setting log in the settings file chooses what is logged, or the variable NAVLOCK_LOG for brokers
that are started with it: see 'navlock daemon run --help'. Names of locks are logged at the levels
debug and trace only, unless the setting log-names is true. Times are in UTC.")]
pub(crate) struct LogsArgs {
    /// Go on showing new lines until interrupted.
    ///
    /// Lines of brokers that are started later are shown as well.
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Show only this number of lines, the last ones.
    #[arg(short = 'n', long, value_name = "LINES")]
    pub(crate) lines: Option<usize>,
}

/// Lets the running broker log more or less, until it ends.
///
/// For brokers that are started later, use the setting log: see 'navlock daemon run --help'.
///
/// Exit codes: 0; 64 if this is not a level; 69 if no broker runs.
#[derive(Debug, Args)]
pub(crate) struct LogLevelArgs {
    /// The level: off, error, warn, info, debug or trace.
    ///
    /// A part of the broker can have a level of its own: write TARGET=LEVEL after a comma, as in
    /// `info,navlock::etcd=debug`.
    pub(crate) level: String,
}

/// Shows the state of the broker.
///
/// Exit codes: 0 if the broker runs, 69 if it does not.
#[derive(Debug, Args)]
#[command(after_long_help = "\
With --json the command writes one object. It has running and socket, and these if the broker runs:
  pid, release, ageMs, clients, orphans, held, pending
  reach     only if locks are seen beyond this machine
  details   an object with words for people, which may change
  log       file, if the broker logs into one, and filter
  lastEnds  the last ends of sessions, each with agoMs, pid if it is known, and why
  numbers   what the broker has counted since it began, by names
  waits     how long requests waited until they were granted: bounds, longer and sumSeconds
Each of bounds has upToSeconds and count, the number of requests that waited for longer than the
bound before it, and no longer than this one. longer is the number of all other requests.
'navlock daemon metrics' prints the same numbers for Prometheus.")]
pub(crate) struct StatusArgs {
    /// Write one JSON object.
    #[arg(long)]
    pub(crate) json: bool,

    /// Also say on which etcd cluster locks of this name are, if the broker has several clusters.
    #[arg(long, value_name = "NAME", value_parser = values::name())]
    pub(crate) name: Option<ResourceName>,
}

/// An empty variable counts as unset, like any other variable.
fn idle_seconds(text: &str) -> Result<Duration, String> {
    values::seconds(if text.is_empty() { IDLE_SECS } else { text })
        .map_err(|wrong| format!("{wrong}, or unset NAVLOCK_IDLE_SECS"))
}

/// What is wrong with a value of `NAVLOCK_IDLE_SECS`, if it is wrong.
pub(crate) fn idle_seconds_error(text: &str) -> Option<String> {
    idle_seconds(text).err()
}
