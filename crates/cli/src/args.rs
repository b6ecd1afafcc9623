//! The command line.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{
    Args, CommandFactory, Parser, Subcommand,
    builder::{OsStringValueParser, TypedValueParser},
    error::ErrorKind,
};
use navlock::Place;
use navlock::ResourceName;

const EXIT_CODES: &str = "\
Exit codes:
  the command's own; 128+n if signal n ended it
  1    the lock is held and -n was given, or the time of -w is over
  64   the arguments are wrong
  69   the broker cannot be reached
  75   the lock was lost while the command ran, which was told to end for it
  126  the command cannot be executed
  127  the command was not found

The command sees NAVLOCK_NAME, NAVLOCK_MODE and NAVLOCK_FENCE, the fencing token: a number that is
larger for every later holder of the name, so that what the command writes to can refuse one that
comes too late. A name that is longer than 32 KiB is not in NAVLOCK_NAME.";

/// After how many seconds without a client the broker ends, if nobody says otherwise.
const IDLE_SECS: &str = "30";

/// Named locks for commands, shared by all processes of a user on this machine.
///
/// A lock is held while its command runs, and is free at once when that ends or dies, however it
/// does. The locks are those of the Web Locks API.
#[derive(Debug, Parser)]
#[command(name = "navlock", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Query(QueryArgs),
    #[command(hide = true)]
    Daemon(DaemonArgs),
}

/// Runs a command while holding a lock.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES, override_usage = "navlock run [OPTIONS] NAME [--] COMMAND [ARGUMENT]...")]
#[expect(clippy::struct_excessive_bools, reason = "flags are what a command line has")]
pub(crate) struct RunArgs {
    /// Hold the lock together with others that share it.
    #[arg(short, long, conflicts_with_all = ["exclusive", "steal"])]
    pub(crate) shared: bool,

    /// Hold the lock alone. This is the default.
    #[arg(short = 'x', long)]
    pub(crate) exclusive: bool,

    /// Do not wait: if the lock cannot be had at once, exit with 1.
    #[arg(short, long, conflicts_with_all = ["timeout", "steal"])]
    pub(crate) nonblock: bool,

    /// Wait for no longer than this many seconds (fractions allowed), then exit with 1.
    #[arg(short = 'w', long, value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    pub(crate) timeout: Option<Duration>,

    /// Take the lock from whoever holds it: their commands are told to end, by SIGTERM, and after
    /// five seconds by SIGKILL. Not so what these have started, nor a command whose own navlock
    /// was killed.
    #[arg(long)]
    pub(crate) steal: bool,

    #[command(flatten)]
    pub(crate) scope: Scope,

    /// The lock's name: any text that does not start with '-'.
    #[arg(value_parser = name)]
    pub(crate) name: ResourceName,

    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Shows who holds and who waits for locks.
#[derive(Debug, Args)]
pub(crate) struct QueryArgs {
    /// Show this name only.
    #[arg(value_parser = name)]
    pub(crate) name: Option<ResourceName>,

    /// One JSON object a line: state, name, mode, clientId.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) scope: Scope,
}

/// Where the locks are.
#[derive(Debug, Args)]
pub(crate) struct Scope {
    /// The bucket: the same name in two buckets is two locks.
    #[arg(
        long,
        env = "NAVLOCK_BUCKET",
        hide_env_values = true,
        default_value = "default",
        value_name = "NAME"
    )]
    pub(crate) bucket: String,

    #[command(flatten)]
    pub(crate) broker: Broker,
}

/// Which broker.
#[derive(Debug, Args)]
pub(crate) struct Broker {
    /// The broker's socket, if not that of all processes of this user.
    #[arg(
        long, env = "NAVLOCK_SOCKET", hide_env_values = true, value_name = "PATH",
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    pub(crate) socket: Option<PathBuf>,
}

/// The broker itself.
#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    #[command(subcommand)]
    pub(crate) command: DaemonCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    Run(DaemonRunArgs),
}

/// Runs the broker until it has had no client for a while. Clients start it when they need it.
#[derive(Debug, Args)]
pub(crate) struct DaemonRunArgs {
    #[command(flatten)]
    pub(crate) broker: Broker,

    /// End after this many seconds without a client.
    #[arg(
        long, env = "NAVLOCK_IDLE_SECS", hide_env_values = true, default_value = IDLE_SECS, value_name = "SECS",
        value_parser = idle_seconds, allow_negative_numbers = true
    )]
    pub(crate) idle_seconds: Duration,
}

impl Broker {
    pub(crate) fn place(&self) -> Place {
        match &self.socket {
            Some(socket) if !socket.as_os_str().is_empty() => Place::at(socket),
            _ => Place::of_user(),
        }
    }
}

/// The arguments of this process.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let arguments: Vec<_> = std::env::args_os().collect();
    Cli::try_parse_from(&arguments).map_err(|error| explain(error, &arguments))
}

/// A name that looks like an option is the one mistake that clap cannot know.
fn explain(error: clap::Error, arguments: &[OsString]) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let unknown =
        arguments.iter().skip(1).filter_map(|argument| argument.to_str()).find(|argument| {
            error.get(clap::error::ContextKind::InvalidArg).is_some_and(|invalid| {
                let invalid = invalid.to_string();
                argument.starts_with('-')
                    && (argument.starts_with(&invalid) || invalid == *argument)
            })
        });
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

fn name(text: &str) -> Result<ResourceName, navlock::ReservedName> {
    ResourceName::try_from(text)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "give a number of seconds that is not negative, as in 1.5".to_owned();
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// As for any variable, to be empty is to be unset.
fn idle_seconds(text: &str) -> Result<Duration, String> {
    seconds(if text.is_empty() { IDLE_SECS } else { text })
        .map_err(|wrong| format!("{wrong}, or unset NAVLOCK_IDLE_SECS"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<RunArgs, ErrorKind> {
        let arguments = ["navlock", "run"].iter().chain(arguments);
        match Cli::try_parse_from(arguments) {
            Ok(Cli { command: Command::Run(run) }) => Ok(run),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.kind()),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_follows_the_name_is_the_command_with_its_own_options() {
        for arguments in [
            &["-s", "db", "--", "sh", "-n", "--steal"][..],
            &["-s", "db", "sh", "-n", "--steal"],
            &["db", "-s", "--", "sh", "-n", "--steal"],
            &["-s", "--", "db", "sh", "-n", "--steal"],
        ] {
            let run = parse(arguments).unwrap();
            assert_eq!(run.name.as_str(), Some("db"), "{arguments:?}");
            assert_eq!(run.command, ["sh", "-n", "--steal"], "{arguments:?}");
            assert!(run.shared && !run.nonblock && !run.steal, "{arguments:?}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for flags in [["-s", "-x"], ["-s", "--steal"], ["-n", "--steal"], ["-n", "-w1"]] {
            let parsed = parse(&[flags[0], flags[1], "db", "true"]);
            assert_eq!(parsed.unwrap_err(), ErrorKind::ArgumentConflict, "{flags:?}");
        }
    }

    #[test]
    fn an_empty_socket_is_that_of_the_user() {
        // As an empty variable is, which clap's own parser of paths refuses.
        let run = parse(&["--socket", "", "db", "true"]).unwrap();
        assert_eq!(run.scope.broker.place(), Place::of_user());
    }

    #[test]
    fn seconds_have_fractions_and_no_sign() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        for wrong in ["-1", "NaN", "inf", "", "1s"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
