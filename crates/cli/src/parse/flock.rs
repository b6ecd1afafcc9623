//! Hints for users who ask for something that flock(1) has and navlock does not have.

use clap::{CommandFactory, error::ErrorKind};

use crate::commands::Cli;

/// What to use instead of an option, if it is an option of flock(1) at a place where it has no
/// meaning.
pub(super) fn instead_of(option: &str, subcommand: Option<String>) -> Option<String> {
    let name = option.split('=').next().unwrap_or(option);
    Some(match (name, subcommand) {
        ("-u" | "--unlock", _) => format!(
            "there is no option '{name}': a lock is held while a command runs, and is free when the \
             command ends; give the work to 'navlock run NAME COMMAND' or 'navlock run NAME -c TEXT', \
             or take the lock with 'navlock hold' and release it with 'navlock release'"
        ),
        ("--fcntl" | "--start" | "--length", _) => format!(
            "there is no option '{name}': navlock locks a name and not a file; leave the option out"
        ),
        (_, None) if is_of_run(name) => format!(
            "'{name}' is an option of 'navlock run': write 'navlock run {name} … NAME COMMAND', with a \
             name where flock(1) takes a file"
        ),
        _ => return None,
    })
}

fn is_of_run(option: &str) -> bool {
    let parsed = Cli::command().try_get_matches_from(["navlock", "run", option]);
    parsed.map_or_else(|error| error.kind() != ErrorKind::UnknownArgument, |_| true)
}

/// What to use instead of a subcommand of this name.
pub(super) fn instead_of_word(word: &str) -> Option<String> {
    word.parse::<u32>().ok()?;
    Some(format!(
        "there is no subcommand '{word}', and a descriptor, as in 'flock {word}', cannot be locked: a lock \
         is held while a command runs; give the work to 'navlock run NAME COMMAND' or \
         'navlock run NAME -c TEXT'; for the rest of a script use 'navlock hold --while-pid $$ NAME'"
    ))
}
