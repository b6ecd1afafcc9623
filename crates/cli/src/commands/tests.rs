//! Tests of the command line as a whole.

use clap::CommandFactory;

#[cfg(feature = "postgres")]
use super::postgres::{DropArgs, InitArgs};
#[cfg(feature = "top")]
use super::top::TopArgs;
#[cfg(feature = "web")]
use super::web::WebArgs;
use super::{
    clients::ClientsArgs,
    daemon::{DaemonRunArgs, LogsArgs, StatusArgs},
    doctor::DoctorArgs,
    evict::EvictArgs,
    examples::Examples,
    hold::HoldArgs,
    man::ManArgs,
    query::QueryArgs,
    watch::WatchArgs,
    *,
};
use crate::args::{RequestArgs, SettingsArgs};

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

/// Each flag by the names that it has on a command line, with its subcommand, as in `daemon logs -f`.
fn all_flags(command: &clap::Command, subcommand: &str) -> Vec<String> {
    let flags = command.get_arguments().flat_map(|argument| {
        let longs = argument.get_long().into_iter();
        let longs = longs.chain(argument.get_all_aliases().into_iter().flatten());
        let shorts = argument.get_short().into_iter();
        let shorts = shorts.chain(argument.get_all_short_aliases().into_iter().flatten());
        let names = longs.map(|long| format!("--{long}"));
        names.chain(shorts.map(|short| format!("-{short}"))).collect::<Vec<_>>()
    });
    let flags = flags.map(|flag| format!("{subcommand} {flag}").trim().to_owned());
    let below = command
        .get_subcommands()
        .flat_map(|below| all_flags(below, format!("{subcommand} {}", below.get_name()).trim()));
    flags.chain(below).collect()
}

/// The flags that the examples of these arguments have, in the same form.
fn flags_in_examples<T: Examples>() -> Vec<String> {
    let ways = || T::FLAGS.iter().flat_map(|(ways, _)| ways.iter().copied());
    let words = || ways().flat_map(str::split_whitespace).filter(|word| word.starts_with('-'));
    let flags = |line: &str| {
        let (subcommand, _) = line.split_once("{}").expect("flags have a place");
        let names = words().map(|word| match word.strip_prefix("--") {
            Some(_) => word.split('=').next().unwrap_or(word),
            None => &word[..2],
        });
        names.map(|name| format!("{subcommand}{name}")).collect::<Vec<_>>()
    };
    T::LINES.iter().flat_map(|line| flags(line)).collect()
}

#[test]
fn every_flag_has_an_example() {
    let examples = [
        flags_in_examples::<Common>(),
        flags_in_examples::<RequestArgs>(),
        flags_in_examples::<SettingsArgs>(),
        flags_in_examples::<RunArgs>(),
        flags_in_examples::<QueryArgs>(),
        flags_in_examples::<WatchArgs>(),
        flags_in_examples::<ClientsArgs>(),
        #[cfg(feature = "web")]
        flags_in_examples::<WebArgs>(),
        #[cfg(feature = "top")]
        flags_in_examples::<TopArgs>(),
        flags_in_examples::<HoldArgs>(),
        flags_in_examples::<DaemonRunArgs>(),
        flags_in_examples::<StatusArgs>(),
        flags_in_examples::<LogsArgs>(),
        flags_in_examples::<DoctorArgs>(),
        flags_in_examples::<EvictArgs>(),
        #[cfg(feature = "postgres")]
        flags_in_examples::<InitArgs>(),
        #[cfg(feature = "postgres")]
        flags_in_examples::<DropArgs>(),
        flags_in_examples::<ManArgs>(),
    ]
    .concat();
    let all = all_flags(&Cli::command(), "");
    assert!(all.len() > 50, "flags are found: {all:?}");
    let missing: Vec<_> = all.iter().filter(|flag| !examples.contains(flag)).collect();
    assert!(missing.is_empty(), "no example has {missing:?}");
}
