//! The command line.

mod flock;
mod hold;
#[cfg(test)]
mod reference;
mod run;
mod settings;
mod values;
#[cfg(feature = "web")]
mod web;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{
    Args, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand,
    builder::{OsStringValueParser, TypedValueParser},
    error::{ContextKind, ErrorKind},
};
use clap_complete::Shell;
use navlock::{ClientId, ResourceName};

pub(crate) use self::{
    hold::{ExtendArgs, HoldArgs, ReleaseArgs},
    run::{OnLost, RequestArgs, RunArgs, Work},
    settings::SettingsArgs,
};

#[cfg(feature = "web")]
pub(crate) use self::web::WebArgs;

/// After how many seconds without a client the broker ends, if nobody says otherwise.
const IDLE_SECS: &str = "30";

/// The first argument of the process that keeps the locks of a `navlock hold`, before those that this
/// was given. It is no option: nobody else gives it.
pub(crate) const KEEPER: &str = "--keeper-of-a-hold";

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

/// Shows who holds and who waits for locks.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
The table is for people and may change. For programs there is --json: one object a line, with
state (held, pending), name, mode, clientId, and as far as they are known pid, command, user, host,
why, meta (an object), ageMs, position (of what is pending; 1 is the next), and fencingToken (of
what is held), which is a string, as numbers of 64 bits are not safe in JavaScript. A lone surrogate
in a name is written as the escape \\ud8xx or \\udcxx.

With -v also the names are shown that are owned: nobody holds them, and who had them last can take
them again without asking the broker, until somebody else asks for them. Their ageMs is since then,
and taken says how often that was done.

With etcd, a machine that keeps a name is asked who holds it. One that does not say so within 2.5 s
(half of the time to live, if that is less) is shown in the holder's place, as (a machine).

--watch looks once a second until it is interrupted (exit code 130 in a shell). On a terminal it
redraws the table. Elsewhere, and with --json, it writes what there is whenever that has changed,
and an empty line after it.

--tree shows first who holds up the most, without waiting for anybody, and below it who waits for
it: hard, if the lock above is held; soft, if the request above is ahead of it in the queue;
inside, if it holds a lock and goes on once the request above, which was made under that lock, is
done; perhaps inside, if nobody has said under which lock the request was made, or on another
machine it was made under one of several that its holder may have. Then come circles, with what
kind of deadlock each is. Below each are lines to paste that would end it: to have a stopped
process go on (kill -CONT), to end a process (kill), to give back a hold (navlock release), to
remove what another machine has left (navlock evict), or to take the lock from whoever holds it
(navlock run --steal). With NAME, or a bucket, it shows the trees in which that is. A deadlock is
told when it has lasted for a second.

--tree --json is one object a line for each tree: blocks (how many requests wait), longestWaitMs,
circle, deadlock (certain or possible), closedBy (clientId/serial of the request that closed it),
rows, and remedies. A row has depth (0 is who blocks all others), block (hard, soft, inside,
same-agent, inside-agent: inside a lock of that agent's on another machine), serial, stopped (the
processes of it that are), silentMs and endsInMs (of another machine's that has not been heard of:
for how long, and in what time others can have what it has, if that stays so), and else what it
has without --tree. A remedy has kind (continue, end, release, evict, steal), does, line, and host
if it is to be pasted there.")]
#[expect(clippy::struct_excessive_bools, reason = "they are switches of a command line")]
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

    /// Show who waits for whom, as a tree, and how to end it.
    #[arg(long, conflicts_with = "watch")]
    pub(crate) tree: bool,

    /// Show all buckets, each entry with its own.
    #[arg(short, long, conflicts_with = "watch")]
    pub(crate) all_buckets: bool,

    /// Show only what has been held, or waited for, for longer than this: 90, 90s, 1m30s, 2h.
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(crate) longer_than: Option<Duration>,
}

/// Shows what happens to locks, as it happens.
#[derive(Debug, Args)]
#[command(after_help = "\
First what there is: a line for each lock that is held and each request that waits. Then a line for
each event: requested, granted, unavailable (it could not be had at once), released, aborted,
stolen, lost, recalled; owned for a name that its owner takes and releases without asking the
broker, as it was seen to be when it was looked at, four times a second; and of clients and their
agents, with -v or --json, client-came, client-went, agent-came, agent-went. With --json there is
also inside, when it comes to be known inside which locks the one was requested that was told of.

With --json one object a line: event, at (milliseconds since 1970), and as far as they are known
bucket, name, mode, clientId, serial (with clientId, which request or lock it is), pid, command,
user, host, why, meta, fencingToken, ageMs (of a request that was granted or aborted: for how long
it had waited; of a lock that was released or lost: for how long it was held), how, by (who has
stolen it), inside (the locks inside which it was requested) and taken.

Whoever reads too slowly misses some: that is said, with how many (missed), and what there is is
told anew; so it is, once a second, when something has changed on other machines. A name that
another machine keeps is owned by that machine, whether somebody holds it there or not. With etcd
the buckets are those that clients of this machine use, and of one that has more than some 10,000
locks and requests not all of other machines are shown: that is said as well (left-out, with how
many: leftOut). It goes on until it is interrupted (exit code 130 in a shell), also when the broker
ends and another one comes: recovered, if that has taken over.")]
pub(crate) struct WatchArgs {
    /// The names; without one, all.
    #[arg(value_parser = values::name())]
    pub(crate) names: Vec<ResourceName>,

    /// One JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,

    /// Watch all buckets.
    #[arg(short, long)]
    pub(crate) all_buckets: bool,
}

/// Shows the processes that use the broker, and how much each holds and waits for.
#[derive(Debug, Args)]
#[command(after_help = "\
STATE is connected; orphaned, if the process was killed and its command, which goes on, keeps its
locks; or sleeping, if it has not come back since the broker before this one and lives.

With --json one object a line: pid, state, ageMs, held, pending, owned, buckets, and agents, each
with clientId, bucket, and as far as they are known pid, command, user, host, why and meta.")]
pub(crate) struct ClientsArgs {
    /// One JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shows live in the terminal who holds what, who waits, and for how long.
#[cfg(feature = "top")]
#[derive(Debug, Args)]
#[command(after_help = "\
A table of all names, who has waited longest first: mode, who holds it and for how long (HELD),
how many wait (QUEUE) and the longest of them for how long (WAIT), how often it is granted in a
second (RATE, of the last ten), and how long requests waited that were granted since this was
started (MEAN, and P99, what 99 of 100 waited at most). A holder in brackets owns the name and
does not hold it; if that is another machine, somebody may hold the name there. Below the table, for
the chosen line, what could be pasted to end it. Names that nobody uses are forgotten after a
minute.

Keys:
  q                 quit
  ?                 help
  up, down, k, j    choose a line; also PgUp, PgDn, Home, End
  Enter             show the name: who holds it, its queue in order, and what has happened
  Esc               back; in the table, show all names again
  s, r              sort by the next column; reverse the order
  /                 show the names only that have a text in them
  b                 show the next bucket only, and after the last one all
  t                 the tree: who waits for whom, as 'navlock query --tree' shows it
  c                 clients, as 'navlock clients' shows them
  d                 deadlocks
  n                 the table of names again
  p, space          pause: show what there was at that moment, until it is pressed again
  S                 take the lock from whom it names before it asks (only with --allow-steal)
  ^L                draw the whole screen anew

It shows all buckets, unless --bucket or NAVLOCK_BUCKET names one; b shows the others. It needs a
terminal: elsewhere there are 'navlock query --watch' and 'navlock watch'.")]
pub(crate) struct TopArgs {
    /// Have S steal locks.
    #[arg(long)]
    pub(crate) allow_steal: bool,
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
    Logs(LogsArgs),
    LogLevel(LogLevelArgs),
    /// Shows what the broker has counted, as Prometheus reads it. Exit codes: 0, or 69 if none runs.
    Metrics,
}

/// Runs the broker until it has had no client for a while.
///
/// It writes "ready" as a line once it listens, and then leaves its input, its output and its
/// session, so that it does not end with the terminal. It logs to its error stream; one that a client
/// has started leaves that too, and logs into a file: see 'navlock daemon logs'. Service managers are
/// told that it is ready (`sd_notify`), and may pass it its socket (`LISTEN_FDS`).
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

/// Shows what brokers have logged that clients have started.
///
/// Their log is a file beside the socket; when it is full, it becomes its predecessor, so that a
/// megabyte is kept at most. What broke inside a broker stands in it too, and 'navlock doctor' keeps it
/// for longer. A broker that is run on purpose logs to its error stream: for systemd's see journalctl.
#[derive(Debug, Args)]
#[command(after_help = "\
What is logged is said by log in the file of settings, or by NAVLOCK_LOG, for brokers that are
started from there on: see 'navlock daemon run --help'. Names of locks are in it at the levels debug
and trace only, if nobody asks for them. Times are in UTC.")]
pub(crate) struct LogsArgs {
    /// Go on showing it, also from brokers that are started later, until it is interrupted.
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Show only so many lines of what there is.
    #[arg(short = 'n', long, value_name = "LINES")]
    pub(crate) lines: Option<usize>,
}

/// Has the broker that runs log more or less, until it ends.
///
/// For brokers that are started later there is log in the file of settings: see 'navlock daemon run
/// --help'. Exit codes: 0; 64 if that is no level; 69 if no broker runs.
#[derive(Debug, Args)]
pub(crate) struct LogLevelArgs {
    /// A level: off, error, warn, info, debug or trace; after a comma TARGET=LEVEL for a part, as in
    /// `info,navlock::etcd=debug`.
    pub(crate) level: String,
}

/// Shows how the broker is. Exit codes: 0 if it runs, 69 if it does not.
#[derive(Debug, Args)]
#[command(after_help = "\
With --json: running, socket; and if it runs pid, release, ageMs, clients, orphans, held,
pending, reach (if locks are seen beyond this machine), details (words for people, which may
change), log (file, if it logs into one, and filter), lastEnds (of sessions: agoMs, pid, why),
numbers (what it has counted since it began, by names) and waits (how long requests have waited
until they were granted: bounds, each with upToSeconds and count; longer, the count of all
others; sumSeconds). 'navlock daemon metrics' has the numbers as Prometheus reads them.")]
pub(crate) struct StatusArgs {
    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,

    /// Says as well on which etcd cluster a lock of this name is, if the broker has several.
    #[arg(long, value_name = "NAME", value_parser = values::name())]
    pub(crate) name: Option<ResourceName>,
}

/// Looks for what is wrong with the set-up. Exit codes: 0 if nothing fails, 1 if something does.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Says as well where a lock of this name is: which etcd cluster it is on, if there are several.
    #[arg(long, value_name = "NAME", value_parser = values::name())]
    pub(crate) name: Option<ResourceName>,

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
    let mut arguments: Vec<_> = std::env::args_os().collect();
    let is_keeper = arguments.get(1).is_some_and(|first| first == KEEPER);
    if is_keeper {
        arguments.remove(1);
    }
    let cli = parse_from(&arguments)?;
    Ok(Cli { is_keeper, ..cli })
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
    Some(Cli { common, command: Command::Run(run), is_keeper: false })
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
    let takes_names = ["run", "query", "wait", "hold", "watch"];
    let takes_names = takes_names.map(Some).contains(&word.as_deref());
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
