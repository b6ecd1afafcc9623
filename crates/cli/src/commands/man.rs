//! `navlock man`: the manual.

use std::{fs, path::PathBuf, process::ExitCode};

use clap::{Args, Command};
use clap_mangen::Man;

use crate::exit::{Failure, USAGE, answer};

/// Prints a manual page, as in: navlock man run | man -l -
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The subcommand whose page to print.
    ///
    /// Without a subcommand, the page of navlock is printed.
    subcommand: Vec<String>,

    /// Write all pages into this directory.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "subcommand")]
    output: Option<PathBuf>,
}

/// The section of the manual for commands, which the pages are in.
const SECTION: &str = "1";

/// Prints or writes pages of `navlock`, which is the command line of this program.
pub(super) fn man(args: &ManArgs, navlock: Command) -> Result<ExitCode, Failure> {
    let mut navlock = navlock.disable_help_subcommand(true);
    navlock.build();
    if let Some(directory) = &args.output {
        for page in pages(&navlock) {
            let path = directory.join(format!("{}.{SECTION}", title(page)));
            fs::write(&path, rendered(page)).map_err(|error| {
                Failure::new(1, format_args!("cannot write {}: {error}", path.display()))
            })?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut page = &navlock;
    for word in &args.subcommand {
        page = page.find_subcommand(word).ok_or_else(|| {
            let message = format!("there is no subcommand {word:?}; see 'navlock --help'");
            Failure::new(USAGE, message)
        })?;
    }
    answer(rendered(page))
}

/// The page of this command, and those of all commands below it.
fn pages(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|below| below.get_name() != "help");
    std::iter::once(command).chain(below.flat_map(pages)).collect()
}

/// `navlock-daemon-run`
fn title(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

fn rendered(command: &Command) -> Vec<u8> {
    let name = title(command);
    let page =
        Man::new(command.clone()).title(name.to_uppercase()).section(SECTION).manual("navlock");
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = page.render(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, error::ErrorKind};

    use super::*;
    use crate::commands::{
        Cli,
        examples::{Examples, Flag, check_examples, check_refusal, parsed},
    };

    #[test]
    fn every_subcommand_has_a_page() {
        let mut navlock = Cli::command().disable_help_subcommand(true);
        navlock.build();
        let titles: Vec<_> = pages(&navlock).into_iter().map(title).collect();
        for title in ["navlock", "navlock-run", "navlock-daemon-stop", "navlock-man"] {
            assert!(titles.iter().any(|known| known == title), "{titles:?}");
        }
        for page in pages(&navlock) {
            let text = String::from_utf8(rendered(page)).unwrap();
            assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{text}");
        }
    }

    impl Examples for ManArgs {
        const LINES: &'static [&'static str] = &["man {}"];

        const FLAGS: &'static [Flag<Self>] =
            &[(&["--output d"], |man| man.output.as_deref() == Some("d".as_ref()))];
    }

    #[test]
    fn each_flag_means_what_its_example_says() {
        check_examples::<ManArgs>();
    }

    #[test]
    fn one_page_is_printed_or_all_are_written() {
        assert_eq!(parsed::<ManArgs>("man daemon run").subcommand, ["daemon", "run"]);
        check_refusal(
            "man --output d run",
            ErrorKind::ArgumentConflict,
            &["--output", "SUBCOMMAND"],
        );
    }
}
