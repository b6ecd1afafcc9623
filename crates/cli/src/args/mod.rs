//! The command line.

mod flock;
mod run;
mod settings;
mod values;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{
    Args, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand,
    builder::{OsStringValueParser, TypedValueParser},
    error::{ContextKind, ErrorKind},
};
use clap_complete::Shell;
use navlock::{ClientId, ResourceName};

pub(crate) use self::{
    run::{OnLost, RequestArgs, RunArgs, Work},
    settings::SettingsArgs,
};

/// After how many seconds without a client the broker ends, if nobody says otherwise.
const IDLE_SECS: &str = "30";

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
}

/// What all subcommands take.
#[derive(Debug, Args)]
#[command(next_help_heading = COMMON)]
pub(crate) struct Common {
    /// The bucket: the same name in two buckets is two locks.
    #[arg(
        long,
        global = true,
        env = "NAVLOCK_BUCKET",
        hide_env_values = true,
        default_value = "default",
        value_name = "NAME"
    )]
    pub(crate) bucket: String,

    /// The broker's socket, if not that of all processes of this user.
    #[arg(
        long, global = true, env = "NAVLOCK_SOCKET", hide_env_values = true, value_name = "PATH",
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    pub(crate) socket: Option<PathBuf>,

    /// Say nothing but what is wrong: nothing while waiting, nor when it took too long.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Say what is done.
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,

    /// Whether to use colours; "auto" is on a terminal, unless `NO_COLOR` is set.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Query(QueryArgs),
    Wait(WaitArgs),
    Daemon(DaemonArgs),
    Doctor(DoctorArgs),
    Evict(EvictArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Shows who holds and who waits for locks.
#[derive(Debug, Args)]
#[command(after_help = "\
The table is for people and may change. For programs there is --json: one object a line, with
state (held, pending), name, mode, clientId, and as far as they are known pid, command, user, host,
why, ageMs, position (of what is pending; 1 is the next), and fencingToken (of what is held), which
is a string, as numbers of 64 bits are not safe in JavaScript. A lone surrogate in a name is written
as the escape \\ud8xx or \\udcxx.

With -v also the names are shown that are owned: nobody holds them, and who had them last can take
them again without asking the broker, until somebody else asks for them. Their ageMs is since then,
and taken says how often that was done.

--watch looks once a second until it is interrupted (exit code 130 in a shell). On a terminal it
redraws the table. Elsewhere, and with --json, it writes what there is whenever that has changed,
and an empty line after it.")]
pub(crate) struct QueryArgs {
    /// Show this name only.
    #[arg(value_parser = values::name())]
    pub(crate) name: Option<ResourceName>,

    /// One JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,

    /// Go on showing it.
    #[arg(long)]
    pub(crate) watch: bool,
}

/// Waits until a lock is free.
///
/// Takes the lock in its turn, after all who asked before, and releases it at once. So when it
/// returns, all of these are done; somebody else may have the lock by then.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 when it was free; 1, or that of -E, when it was not in time; 64, 69 and 75 as for
'navlock run'.")]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,

    /// The names: with several, wait until all are free at one moment.
    #[arg(value_name = "NAME", required_unless_present = "locks", value_parser = values::name())]
    pub(crate) names: Vec<ResourceName>,
}

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
}

/// Runs the broker until it has had no client for a while.
///
/// It writes "ready" as a line once it listens, and then leaves its standard streams and its
/// session, so that it does not end with the terminal.
#[derive(Debug, Args)]
#[command(after_help = settings::HELP)]
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

/// Shows how the broker is. Exit codes: 0 if it runs, 69 if it does not.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Looks for what is wrong with the set-up. Exit codes: 0 if nothing fails, 1 if something does.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// One JSON object a line: level (ok, warn, fail), what, detail, remedy.
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
#[command(after_help = "\
It speaks to the etcd of the settings, as a broker would, and needs none. Nothing is removed but
what was there when it looked.

Exit codes: 0 if it was removed; 1 if there is no such thing, or it has just changed; 64 if no
settings name an etcd; 69 if that cannot be used.")]
pub(crate) struct EvictArgs {
    /// The lock's name.
    #[arg(value_parser = values::name(), required_unless_present = "key", requires = "client_id")]
    pub(crate) name: Option<ResourceName>,

    /// Whose: the client id, as 'navlock query' shows it.
    #[arg(value_name = "CLIENT ID")]
    pub(crate) client_id: Option<ClientId>,

    /// A key of etcd, in place of a name and a client id: exactly that.
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
    /// The subcommand's page, instead of that of navlock.
    pub(crate) subcommand: Vec<String>,

    /// Write all pages into this directory.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "subcommand")]
    pub(crate) output: Option<PathBuf>,
}

/// The arguments of this process.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    parse_from(&std::env::args_os().collect::<Vec<_>>())
}

fn parse_from(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    if let Some(run) = parse_run(arguments) {
        return Ok(run);
    }
    let mut command = Cli::command();
    let matches =
        command.try_get_matches_from_mut(arguments).map_err(|error| explain(error, arguments))?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// `navlock run` as it is mostly written. `None` for all that is not, or is wrong, which is said by
/// who knows the whole.
///
/// FAST: to make known to clap what all subcommands take costs as much as a lock, and this one is
/// waited for.
fn parse_run(arguments: &[OsString]) -> Option<Cli> {
    let (_, arguments) = arguments.split_first()?;
    if arguments.first()? != "run" {
        return None;
    }
    let run = clap::Command::new("run").disable_help_flag(true);
    let run = RunArgs::augment_args(Common::augment_args(run));
    let matches = run.try_get_matches_from(arguments).ok()?;
    let common = Common::from_arg_matches(&matches).ok()?;
    let run = RunArgs::from_arg_matches(&matches).ok()?;
    Some(Cli { common, command: Command::Run(run) })
}

/// The subcommand that these arguments are for, as far as that can be told without parsing them.
pub(crate) fn subcommand(arguments: &[OsString]) -> Option<String> {
    let mut arguments = arguments.iter().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--bucket" | "--socket" | "--color") => drop(arguments.next()),
            Some(option) if option.starts_with('-') => {}
            word => return word.map(str::to_owned),
        }
    }
    None
}

/// Whether there is such a subcommand.
pub(crate) fn is_subcommand(name: &str) -> bool {
    Cli::command().find_subcommand(name).is_some()
}

/// What clap cannot know: a name that looks like an option, and what somebody means who is used to
/// flock(1).
fn explain(error: clap::Error, arguments: &[OsString]) -> clap::Error {
    let word = subcommand(arguments);
    if error.kind() == ErrorKind::InvalidSubcommand {
        return match word.as_deref().and_then(flock::instead_of_word) {
            Some(said) => Cli::command().error(ErrorKind::InvalidSubcommand, said),
            None => error,
        };
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let unknown =
        arguments.iter().skip(1).filter_map(|argument| argument.to_str()).find(|argument| {
            error.get(ContextKind::InvalidArg).is_some_and(|invalid| {
                let invalid = invalid.to_string();
                argument.starts_with('-')
                    && (argument.starts_with(&invalid) || invalid == *argument)
            })
        });
    let word = word.filter(|word| is_subcommand(word));
    let takes_names = ["run", "query", "wait"].map(Some).contains(&word.as_deref());
    if let Some(said) = unknown.and_then(|unknown| flock::instead_of(unknown, word)) {
        return Cli::command().error(ErrorKind::UnknownArgument, said);
    }
    // Who has an option's name nearly right has no name in mind.
    let is_nearly_right = error.get(ContextKind::SuggestedArg).is_some();
    if !takes_names || is_nearly_right {
        return error;
    }
    match unknown {
        Some(unknown) => Cli::command().error(
            ErrorKind::UnknownArgument,
            format!(
                "there is no option '{unknown}'; if it is to be a name: names that start with '-' \
                 are reserved, choose one that does not"
            ),
        ),
        None => error,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// clap would break a longer line, in a text that has its own.
    #[test]
    fn no_line_of_help_is_wider_than_help_is_shown() {
        fn check(command: &clap::Command) {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in after.lines() {
                assert!(line.chars().count() <= 100, "{}: {line}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    fn subcommand_of(line: &str) -> Option<String> {
        subcommand(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    /// By the short way and by the whole.
    #[test]
    fn run_is_understood_the_same_both_ways() {
        let whole = |line: &[OsString]| {
            let mut command = Cli::command();
            let matches = command.try_get_matches_from_mut(line).ok()?;
            Cli::from_arg_matches(&matches).ok()
        };
        let words = [
            "db",
            "--",
            "-s",
            "-n",
            "-w1",
            "-l",
            "-qv",
            "--bucket=b",
            "--steal",
            "-h",
            "-V",
            "-c",
            "--on-lost",
            "kill",
            "-nope",
        ];
        let mut understood = 0;
        for count in 0..=3 {
            for number in 0..words.len().pow(count) {
                let nth = |place| words[number / words.len().pow(place) % words.len()];
                let line = ["navlock", "run"].into_iter().chain((0..count).map(nth));
                let line: Vec<_> = line.map(OsString::from).collect();
                let Some(run) = parse_run(&line) else { continue };
                understood += 1;
                assert_eq!(format!("{run:?}"), format!("{:?}", whole(&line).unwrap()), "{line:?}");
            }
        }
        assert!(understood > 100, "{understood}");
    }

    #[test]
    fn the_subcommand_is_found_among_common_options() {
        for line in ["navlock run", "navlock -q --socket x run db", "navlock --color=never run -q"]
        {
            assert_eq!(subcommand_of(line).as_deref(), Some("run"), "{line}");
        }
        assert_eq!(subcommand_of("navlock --bucket run query").as_deref(), Some("query"));
        assert_eq!(subcommand_of("navlock -q"), None);
    }

    #[test]
    fn common_options_may_stand_anywhere_before_the_command() {
        for line in [
            "navlock -v --bucket b query db",
            "navlock query -v --bucket b db",
            "navlock query db --bucket=b -v",
        ] {
            let cli = parse_from(&line.split(' ').map(OsString::from).collect::<Vec<_>>()).unwrap();
            assert!(cli.common.verbose && cli.common.bucket == "b", "{line}");
        }
    }
}
