//! The way from the words of a command line to [`Cli`].

mod flock;
mod refusal;

use std::ffi::OsString;

use clap::{
    Args, CommandFactory, FromArgMatches,
    error::{ContextKind, ErrorKind},
};

pub(crate) use self::refusal::report_refusal;
use crate::{
    args::Common,
    commands::{Cli, Command, Role, RunArgs},
};

/// The arguments of this process.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    let role = Role::take(&mut arguments);
    let cli = parse_from(&arguments)?;
    Ok(Cli { role, ..cli })
}

pub(crate) fn parse_from(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    if let Some(run) = parse_run(arguments) {
        return Ok(run);
    }
    let mut command = Cli::command();
    let matches =
        command.try_get_matches_from_mut(arguments).map_err(|error| explain(error, arguments))?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Parses `navlock run` in its usual form. `None` for any other command line, and for a wrong one,
/// because the parser of all subcommands says what is wrong.
///
/// FAST: to tell clap what all subcommands take costs as much as a lock, and somebody waits for this
/// command.
pub(crate) fn parse_run(arguments: &[OsString]) -> Option<Cli> {
    let (_, arguments) = arguments.split_first()?;
    if arguments.first()? != "run" {
        return None;
    }
    let run = clap::Command::new("run").disable_help_flag(true);
    let run = RunArgs::augment_args(Common::augment_args(run));
    let matches = run.try_get_matches_from(arguments).ok()?;
    let common = Common::from_arg_matches(&matches).ok()?;
    let run = RunArgs::from_arg_matches(&matches).ok()?;
    Some(Cli { common, command: Command::Run(run), role: Role::Asker })
}

/// The subcommand of these arguments, as far as it can be found without parsing them.
fn subcommand(arguments: &[OsString]) -> Option<String> {
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
fn is_subcommand(name: &str) -> bool {
    Cli::command().find_subcommand(name).is_some()
}

/// Explains an error where clap cannot: a name that looks like an option, and the words of a user who
/// is used to flock(1).
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
    // A user who writes the name of an option nearly right does not mean the name of a lock.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn subcommand_of(line: &str) -> Option<String> {
        subcommand(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
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
            assert!(cli.common.verbose && cli.common.bucket.as_deref() == Some("b"), "{line}");
        }
    }
}
