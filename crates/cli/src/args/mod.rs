//! The command line.

mod daemon;
mod flock;
mod hold;
mod looking;
mod parse;
#[cfg(test)]
mod reference;
mod refusal;
mod run;
mod settings;
mod values;
#[cfg(feature = "web")]
mod web;
mod work;

use std::{ffi::OsString, path::PathBuf};

use clap::{
    Args, ColorChoice, Parser, Subcommand,
    builder::{OsStringValueParser, TypedValueParser},
};
use clap_complete::Shell;
use navlock::{ClientId, ResourceName};

#[cfg(feature = "top")]
pub(crate) use self::looking::TopArgs;
#[cfg(feature = "web")]
pub(crate) use self::web::WebArgs;
pub(crate) use self::{
    daemon::{
        DaemonArgs, DaemonCommand, DaemonRunArgs, LogLevelArgs, LogsArgs, StatusArgs,
        idle_seconds_error,
    },
    hold::{ExtendArgs, HoldArgs, ReleaseArgs},
    looking::{ClientsArgs, QueryArgs, WatchArgs},
    parse::{KEEPER, parse},
    refusal::report_refusal,
    run::{OnLost, RequestArgs, RunArgs},
    settings::SettingsArgs,
    work::Work,
};

/// The heading under which help shows what all subcommands take.
const COMMON: &str = "Common options";

/// Named locks for commands, shared by all processes of a user on this machine.
///
/// A lock is held while its command runs. When the command ends or dies, in whatever way, the lock is
/// free at once. The locks are those of the Web Locks API. With etcd, many machines share them: see
/// 'navlock daemon run --help'.
#[derive(Debug, Parser)]
#[command(name = "navlock", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,

    #[command(subcommand)]
    pub(crate) command: Command,

    /// Whether this process is the one that keeps the locks of a `navlock hold`.
    #[arg(skip)]
    pub(crate) is_keeper: bool,
}

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

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Query(QueryArgs),
    Watch(WatchArgs),
    Clients(ClientsArgs),
    #[cfg(feature = "web")]
    Web(WebArgs),
    #[cfg(feature = "top")]
    Top(TopArgs),
    Wait(WaitArgs),
    Hold(HoldArgs),
    Release(ReleaseArgs),
    Extend(ExtendArgs),
    Daemon(DaemonArgs),
    Doctor(DoctorArgs),
    Evict(EvictArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Waits until a lock is free.
///
/// The command takes the lock in its turn, after all earlier requests, and releases it at once. When the
/// command returns, all earlier holders and waiters are done. With --shared this is true of the exclusive ones
/// only: shared ones may still hold the lock. Another client may have the lock by then.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Exit codes:
  0           the lock was free
  1           -n was given and the lock was not free, or the time of -w is over; -E chooses another
              number
  N           of --deadlock-exit-code, if the command would have waited for ever
  64, 69, 75  as for 'navlock run'")]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,

    /// The names.
    ///
    /// With several names, wait until all of them are free at one moment.
    #[arg(value_name = "NAME", required_unless_present = "locks", value_parser = values::name())]
    pub(crate) names: Vec<ResourceName>,
}

/// Checks whether the set-up works.
///
/// It checks the environment, the directory of the broker, the broker, the settings and etcd. A failed check
/// says what to do about it, as far as navlock knows.
///
/// Exit codes: 0 if no check fails, 1 if a check fails.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Also say where locks of this name are: on this machine, or on which etcd or cluster.
    #[arg(long, value_name = "NAME", value_parser = values::name())]
    pub(crate) name: Option<ResourceName>,

    /// Write one JSON object a line.
    ///
    /// Each object has level (ok, warn or fail), what and detail. It has remedy if navlock knows what to do.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
}

/// Removes a lock or a request of any client from etcd.
///
/// Use it for a key that blocks a name and is neither a lock nor a request. Such a key may not end by
/// itself; 'navlock query' and 'navlock doctor' show it. Use it also for a lock or a request that another
/// machine has left behind, if nobody uses it any more and you do not want to wait until it ends.
///
/// The holder is told that the lock is lost, but may still be at work. To take a lock from its holder for
/// yourself, use 'navlock run --steal'.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The command talks to the etcd of the settings directly, as a broker does. It needs no broker. It
removes only what it has found when it looked. A key that has changed since then stays.

Exit codes:
  0   the lock, the request or the key was removed
  1   it does not exist, or has just changed
  64  no settings name an etcd
  69  the settings or the etcd cannot be used")]
pub(crate) struct EvictArgs {
    /// The lock's name.
    #[arg(value_parser = values::name(), required_unless_present = "key", requires = "client_id")]
    pub(crate) name: Option<ResourceName>,

    /// The client id of the holder or waiter, as 'navlock query' shows it.
    #[arg(value_name = "CLIENT ID")]
    pub(crate) client_id: Option<ClientId>,

    /// The etcd key to remove, in place of a name and a client id.
    #[arg(
        long, value_name = "KEY", conflicts_with_all = ["name", "client_id"],
        value_parser = OsStringValueParser::new()
    )]
    pub(crate) key: Option<OsString>,

    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
}

/// Prints the completion script for a shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: Shell,
}

/// Prints a manual page, as in: navlock man run | man -l -
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The subcommand whose page to print.
    ///
    /// Without a subcommand, the page of navlock is printed.
    pub(crate) subcommand: Vec<String>,

    /// Write all pages into this directory.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "subcommand")]
    pub(crate) output: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// clap would break a longer line, although the text has its own line breaks.
    #[test]
    fn no_line_of_help_is_wider_than_help_is_shown() {
        fn check(command: &clap::Command) {
            let after = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            for line in after.lines() {
                assert!(line.chars().count() <= 100, "{}: {line}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
