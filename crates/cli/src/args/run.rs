//! The arguments of `navlock run`, and how names and the command are told apart.

use std::{ffi::OsString, time::Duration};

use clap::{Args, ValueEnum};
use navlock::{Mode, ResourceName};

use super::values;
use crate::exit::{Failure, USAGE};

const EXIT_CODES: &str = "\
Names and the command:
  NAME COMMAND [ARGUMENT]...              the first word is the name, as for flock(1)
  NAME... -- COMMAND [ARGUMENT]...        all before the first \"--\" are names
  NAME -c TEXT, or -c TEXT NAME...        all words are names
Write the \"--\" if the command has one among its own arguments. Several locks are taken one after the
other, in the one order that all programs use: those that take several at once cannot wait for each
other in a circle. Between them is nothing by halves: if one cannot be had, none is held.

Exit codes:
  the command's own; 128+n if signal n ended it
  1    a lock is held and -n was given, or the time of -w is over; -E chooses another number
  64   the arguments are wrong
  69   the broker cannot be reached
  75   a lock was lost, and the command told to end for it (unless --on-lost=ignore was given)
  126  the command cannot be executed
  127  the command was not found

The command sees NAVLOCK_NAME, NAVLOCK_MODE and NAVLOCK_FENCE, the fencing token: a number that is
larger for every later holder of the name, so that what the command writes to can refuse one that
comes too late. Of several locks, NAVLOCK_NAME and NAVLOCK_FENCE have one line each, in the order in
which the names were given. NAVLOCK_NAME is not set if it would be longer than 32 KiB, has a NUL
character in it, or one of several names has a line end.";

/// Runs a command while holding a lock.
///
/// The lock is held until the command has ended, also if navlock itself is killed.
#[derive(Debug, Args)]
#[command(
    after_help = EXIT_CODES,
    override_usage = "navlock run [OPTIONS] NAME COMMAND [ARGUMENT]...\n       \
                      navlock run [OPTIONS] NAME... -- COMMAND [ARGUMENT]...\n       \
                      navlock run [OPTIONS] -c SHELL-COMMAND NAME..."
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,

    /// Take the lock from whoever holds it: their commands are told to end, by SIGTERM, and after
    /// five seconds by SIGKILL, unless they chose otherwise. Not so what these have started, nor a
    /// command whose own navlock was killed.
    #[arg(long, conflicts_with_all = ["shared", "nonblock"])]
    pub(crate) steal: bool,

    /// What becomes of the command when the lock is lost: told to end, and killed after five
    /// seconds; killed at once; or left alone, in which case its exit code counts.
    #[arg(long, value_name = "HOW", value_enum, default_value = "term")]
    pub(crate) on_lost: OnLost,

    /// Have the command not hold the lock by itself: if navlock is killed, the lock is free.
    #[arg(short = 'o', long)]
    pub(crate) close: bool,

    /// Run this with $SHELL -c, or /bin/sh -c.
    #[arg(short = 'c', long = "command", value_name = "SHELL-COMMAND", allow_hyphen_values = true)]
    pub(crate) shell_command: Option<OsString>,

    /// The lock's name: any text that does not start with '-'.
    #[arg(value_name = "NAME")]
    pub(crate) first: Option<OsString>,

    /// More names, or the command and its arguments: see below.
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub(crate) rest: Vec<OsString>,

    /// What stands after "--", if that is there.
    #[arg(skip)]
    pub(crate) after: Option<Vec<OsString>>,
}

/// What to ask for, and for how long.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    /// Hold the lock together with others that share it.
    #[arg(short, long, conflicts_with = "exclusive")]
    pub(crate) shared: bool,

    /// Hold the lock alone. This is the default.
    #[arg(short = 'x', short_alias = 'e', long)]
    pub(crate) exclusive: bool,

    /// Do not wait: if the lock cannot be had at once, exit with 1.
    #[arg(short, long, alias = "nb", conflicts_with = "timeout")]
    pub(crate) nonblock: bool,

    /// Wait for no longer than this many seconds (fractions allowed), for all locks together, then
    /// exit with 1.
    #[arg(
        short = 'w', long, alias = "wait", value_name = "SECS", value_parser = values::seconds,
        allow_negative_numbers = true
    )]
    pub(crate) timeout: Option<Duration>,

    /// Exit with this instead of 1.
    #[arg(short = 'E', long, value_name = "N", default_value_t = crate::exit::CONFLICT)]
    pub(crate) conflict_exit_code: u8,

    /// What it is for, to be seen by those who wait, and in 'navlock query'.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) why: String,
}

/// What to do with a command whose lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    Term,
    Kill,
    Ignore,
}

/// What is to be run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A program with its arguments.
    Program(OsString, Vec<OsString>),
    /// A line for the shell.
    Shell(OsString),
}

impl RequestArgs {
    pub(crate) fn mode(&self) -> Mode {
        if self.shared { Mode::Shared } else { Mode::Exclusive }
    }
}

impl RunArgs {
    /// The names, each once and in the order given, and what to run under their locks.
    pub(crate) fn words(&mut self) -> Result<(Vec<ResourceName>, Work), Failure> {
        let before = self.first.take().into_iter().chain(std::mem::take(&mut self.rest)).collect();
        let (words, work) = if let Some(text) = self.shell_command.take() {
            (all_names(before, self.after.take())?, Work::Shell(text))
        } else {
            let (names, mut command) = split(before, self.after.take());
            if names.is_empty() {
                return Err(usage("no name was given; give one, and a command after it"));
            }
            if command.is_empty() {
                return Err(usage("no command was given; add one after the name"));
            }
            let program = command.remove(0);
            (names, Work::Program(program, command))
        };
        if words.is_empty() {
            return Err(usage("no name was given; give one beside the shell's command"));
        }
        let mut names: Vec<ResourceName> = Vec::with_capacity(words.len());
        for word in words {
            let name = name(&word)?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok((names, work))
    }
}

/// The names and the command, where that is not the shell's.
fn split(
    mut before: Vec<OsString>,
    after: Option<Vec<OsString>>,
) -> (Vec<OsString>, Vec<OsString>) {
    match after {
        None if before.is_empty() => (before, Vec::new()),
        None => {
            let command = before.split_off(1);
            (before, command)
        }
        // It has only ended the options.
        Some(mut after) if before.is_empty() => match after.iter().position(|word| word == "--") {
            Some(escape) => {
                let command = after.split_off(escape + 1);
                after.pop();
                (after, command)
            }
            None => split(after, None),
        },
        Some(after) => (before, after),
    }
}

/// The names, where the command is the shell's.
fn all_names(
    before: Vec<OsString>,
    after: Option<Vec<OsString>>,
) -> Result<Vec<OsString>, Failure> {
    match after {
        Some(after) if before.is_empty() => Ok(after),
        Some(after) if !after.is_empty() => {
            Err(usage("there is a command after '--' and another one with -c; give one of them"))
        }
        _ => Ok(before),
    }
}

fn name(word: &OsString) -> Result<ResourceName, Failure> {
    let Some(text) = word.to_str() else {
        return Err(usage(format_args!("{word:?} is not UTF-8, as a name has to be")));
    };
    ResourceName::try_from(text).map_err(|reserved| usage(format_args!("{text:?}: {reserved}")))
}

fn usage(what: impl std::fmt::Display) -> Failure {
    Failure::new(USAGE, format_args!("{what}; see 'navlock run --help'"))
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::{super::*, *};

    fn parse(line: &[&str]) -> Result<RunArgs, ErrorKind> {
        let line = ["navlock", "run"].iter().chain(line).map(OsString::from).collect();
        match parse_from(line) {
            Ok(Cli { command: Command::Run(run), .. }) => Ok(run),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.kind()),
        }
    }

    fn words(line: &[&str]) -> Option<(Vec<String>, Work)> {
        let (names, work) = parse(line).unwrap().words().ok()?;
        Some((names.iter().map(ToString::to_string).collect(), work))
    }

    fn program(words: &[&str]) -> Work {
        Work::Program(words[0].into(), words[1..].iter().map(OsString::from).collect())
    }

    #[test]
    fn what_follows_the_name_is_the_command_with_its_own_options() {
        for arguments in [
            &["-s", "db", "--", "sh", "-n", "--steal"][..],
            &["-s", "db", "sh", "-n", "--steal"],
            &["db", "-s", "--", "sh", "-n", "--steal"],
            &["-s", "--", "db", "sh", "-n", "--steal"],
            &["-s", "--", "db", "--", "sh", "-n", "--steal"],
        ] {
            let mut run = parse(arguments).unwrap();
            assert!(run.request.shared && !run.request.nonblock && !run.steal, "{arguments:?}");
            let (names, work) = run.words().ok().unwrap();
            assert_eq!(names[0].as_str(), Some("db"), "{arguments:?}");
            assert_eq!(work, program(&["sh", "-n", "--steal"]), "{arguments:?}");
        }
    }

    #[test]
    fn with_two_hyphens_all_before_them_are_names() {
        let expected = (vec!["a".to_owned(), "b".to_owned()], program(&["cmd", "-x", "--", "y"]));
        for line in [
            &["a", "b", "--", "cmd", "-x", "--", "y"][..],
            &["a", "-s", "b", "--", "cmd", "-x", "--", "y"],
            &["a", "b", "a", "--", "cmd", "-x", "--", "y"],
            &["--", "a", "b", "--", "cmd", "-x", "--", "y"],
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line:?}");
        }
    }

    #[test]
    fn with_a_shell_command_all_words_are_names() {
        for (line, names) in [
            (&["a", "-c", "x -- y"][..], &["a"][..]),
            (&["-c", "x -- y", "a", "b"], &["a", "b"]),
            (&["-c", "x -- y", "--", "a", "b"], &["a", "b"]),
            (&["a", "b", "-c", "x -- y", "--"], &["a", "b"]),
        ] {
            let (given, work) = words(line).unwrap();
            assert_eq!(given, names, "{line:?}");
            assert_eq!(work, Work::Shell("x -- y".into()), "{line:?}");
        }
        // That option is the command's.
        assert_eq!(words(&["a", "sh", "-c", "x"]).unwrap().1, program(&["sh", "-c", "x"]));
    }

    #[test]
    fn without_a_name_or_a_command_or_with_two_commands_there_is_nothing_to_do() {
        for line in [
            &[][..],
            &["a"],
            &["a", "--"],
            &["--"],
            &["--", "a"],
            &["--", "--", "a"],
            &["-c", "x"],
            &["a", "-c", "x", "--", "y"],
            &["a", "--", "-c", "--"][..2],
        ] {
            assert_eq!(words(line), None, "{line:?}");
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
    fn flocks_spellings_are_understood() {
        let run = parse(&["--nb", "-e", "-E", "7", "-o", "db", "true"]).unwrap();
        assert!(run.request.nonblock && run.request.exclusive && run.close);
        assert_eq!(run.request.conflict_exit_code, 7);
        let run = parse(&["--wait", "2", "db", "true"]).unwrap();
        assert_eq!(run.request.timeout, Some(Duration::from_secs(2)));
    }
}
