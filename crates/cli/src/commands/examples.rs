//! How flags are tested: by examples, which stand in the file that defines the flags.

use std::fmt::Debug;

use clap::{CommandFactory, FromArgMatches, error::ErrorKind};

use super::Cli;
use crate::parse::{parse_from, parse_run};

/// Arguments with an example of each of their flags.
pub(crate) trait Examples: FromArgMatches + Debug + 'static {
    /// A command line for each subcommand that takes the arguments. The flags stand in place of `{}`.
    const LINES: &'static [&'static str];

    /// What stands in their place if none is given.
    const NO_FLAG: &'static str = "";

    const FLAGS: &'static [Flag<Self>];
}

/// The ways in which a flag can be written, and what is true of the arguments if it is given.
pub(crate) type Flag<T> = (&'static [&'static str], fn(&T) -> bool);

/// Checks that each example is true with its flag, however that is written, and is not true without the flag.
pub(crate) fn check_examples<T: Examples>() {
    for line in T::LINES {
        let without: T = parsed(&line.replace("{}", T::NO_FLAG));
        for (ways, is_true) in T::FLAGS {
            assert!(!is_true(&without), "without {ways:?} it is the same: {without:?}");
            for way in *ways {
                let line = line.replace("{}", way);
                let with: T = parsed(&line);
                assert!(is_true(&with), "{line}: {with:?}");
                let is_run = line.starts_with("run ");
                assert!(!is_run || is_parsed_alone(&line), "{line}: `run` does not parse it alone");
            }
        }
    }
}

/// What a command line says of these arguments.
#[track_caller]
pub(crate) fn parsed<T: FromArgMatches>(line: &str) -> T {
    let matches = Cli::command().try_get_matches_from(words(line));
    let matches = matches.unwrap_or_else(|error| panic!("{line}: {error}"));
    let mut subcommand = &matches;
    while let Some((_, below)) = subcommand.subcommand() {
        subcommand = below;
    }
    T::from_arg_matches(subcommand).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Checks that a command line is refused in this way, with these words in the message.
#[track_caller]
pub(crate) fn check_refusal(line: &str, kind: ErrorKind, named: &[&str]) {
    let words: Vec<_> = words(line).map(Into::into).collect();
    let Err(error) = parse_from(&words) else { panic!("{line} is not refused") };
    assert_eq!(error.kind(), kind, "{line}: {error}");
    // After an empty line there are tips and the usage.
    let message = error.to_string();
    let message: Vec<_> = message.lines().take_while(|line| !line.is_empty()).collect();
    for word in named {
        assert!(message.concat().contains(word), "{line}: {message:?} does not name {word}");
    }
}

/// Whether the parser that knows `run` only takes the line.
fn is_parsed_alone(line: &str) -> bool {
    parse_run(&words(line).map(Into::into).collect::<Vec<_>>()).is_some()
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    ["navlock"].into_iter().chain(line.split_whitespace())
}
