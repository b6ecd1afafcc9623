//! Tests of the command line as a whole.

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
