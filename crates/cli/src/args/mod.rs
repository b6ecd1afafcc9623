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
/// A lock is held while its command runs, and is free at once when that ends or dies, however it
/// does. The locks are those of the Web Locks API. With etcd, many machines share them: see
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
    /// Nothing is said while a lock is waited for, or when that took too long.
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
/// Takes the lock in its turn, after all who asked before, and releases it at once. So when it
/// returns, all of these are done; somebody else may have the lock by then.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Exit codes: 0 when it was free; 1, or that of -E, when it was not in time; 64, 69 and 75 as for
'navlock run'.")]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,

    /// The names. Of several, wait until all are free at one moment.
    #[arg(value_name = "NAME", required_unless_present = "locks", value_parser = values::name())]
    pub(crate) names: Vec<ResourceName>,
}

/// Looks for what is wrong with the set-up.
///
/// Exit codes: 0 if no check fails, 1 if one does.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Say as well on which etcd cluster a lock of this name is, if there are several.
    #[arg(long, value_name = "NAME", value_parser = values::name())]
    pub(crate) name: Option<ResourceName>,

    /// Write one JSON object a line.
    ///
    /// Each has level (ok, warn, fail), what, detail and remedy.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
}

/// Removes a lock or a request from etcd, whosever it is.
///
/// For what nobody uses any more and does not end by itself: a key that stands in the way of a name
/// and is no lock ('navlock query' and 'navlock doctor' show such), or what another machine has left
/// that is not to be waited for. Whoever holds it is told that it is lost, but may be at work still;
/// to take a lock from its holder for oneself there is 'navlock run --steal'.
#[derive(Debug, Args)]
#[command(after_long_help = "\
It speaks to the etcd of the settings, as a broker would, and needs none. Nothing is removed but
what was there when it looked.

Exit codes: 0 if it was removed; 1 if there is no such thing, or it has just changed; 64 if no
settings name an etcd; 69 if that cannot be used.")]
pub(crate) struct EvictArgs {
    /// The lock's name.
    #[arg(value_parser = values::name(), required_unless_present = "key", requires = "client_id")]
    pub(crate) name: Option<ResourceName>,

    /// The client id of its holder or waiter, as 'navlock query' shows it.
    #[arg(value_name = "CLIENT ID")]
    pub(crate) client_id: Option<ClientId>,

    /// The key of etcd to remove, in place of a name and a client id.
    #[arg(
        long, value_name = "KEY", conflicts_with_all = ["name", "client_id"],
        value_parser = OsStringValueParser::new()
    )]
    pub(crate) key: Option<OsString>,

    #[command(flatten)]
    pub(crate) settings: SettingsArgs,
}

/// Prints a script with which a shell completes what is typed.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: Shell,
}

/// Prints a manual page, as in: navlock man run | man -l -
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The subcommand whose page to print. Without this, that of navlock.
    pub(crate) subcommand: Vec<String>,

    /// Write all pages into this directory.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "subcommand")]
    pub(crate) output: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// clap would break a longer line, in a text that has its own.
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
