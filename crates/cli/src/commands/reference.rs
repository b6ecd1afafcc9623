//! The reference of the book: all commands and flags, from their definitions here.
//!
//! `cargo xtask book` writes it.

#![cfg(all(feature = "top", feature = "web"))]

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use clap::{Arg, Command, CommandFactory};
use navlock::look::Change;

use super::Cli;

const PAGE: &str = "docs/command-reference.md";

const HEAD: &str = "\
# Commands and flags

<!-- Written by `cargo xtask book` from the definition of the command line: change that, not this. -->

This page shows what `navlock COMMAND --help` shows. `navlock man COMMAND` makes a manual page of it.
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn navlock() -> Command {
    let mut navlock = Cli::command().disable_help_subcommand(true);
    navlock.build();
    navlock
}

/// This command and all below it.
fn all(command: &Command) -> Vec<&Command> {
    std::iter::once(command).chain(command.get_subcommands().flat_map(all)).collect()
}

/// The arguments of this command alone, without those of all commands.
fn own_arguments(command: &Command) -> Vec<&Arg> {
    let arguments = command.get_arguments();
    arguments
        .filter(|argument| !argument.is_global_set() && !argument.is_hide_set())
        .filter(|argument| !["help", "version"].contains(&argument.get_id().as_str()))
        .collect()
}

/// `-l`, `--lock NAME`
fn spelled(argument: &Arg) -> String {
    let takes_value = argument.get_action().takes_values();
    let names = argument.get_value_names().filter(|_| takes_value).unwrap_or_default();
    let value = names.join(" ");
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let mut ways: Vec<String> = short.into_iter().chain(long).collect();
    match ways.last_mut() {
        Some(last) if !value.is_empty() => write!(last, " {value}").unwrap(),
        Some(_) => {}
        None => ways.push(value),
    }
    ways.iter().map(|way| format!("`{way}`")).collect::<Vec<_>>().join(", ")
}

/// A text within a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn table(arguments: &[&Arg]) -> String {
    let mut table = String::from("| argument | meaning |\n|---|---|\n");
    for argument in arguments {
        let help = argument.get_long_help().or(argument.get_help());
        let mut meaning = cell(&help.map(ToString::to_string).unwrap_or_default());
        let mut add = |what: &str, values: Vec<String>| {
            if !values.is_empty() {
                write!(meaning, " ({what}: `{}`)", values.join("`, `")).unwrap();
            }
        };
        if argument.get_action().takes_values() {
            let possible = argument.get_possible_values();
            let possible = possible.iter().filter(|value| !value.is_hide_set());
            add("one of", possible.map(|value| value.get_name().to_owned()).collect());
            if !argument.is_hide_default_value_set() {
                let values = argument.get_default_values().iter();
                add("default", values.map(|value| value.to_string_lossy().into_owned()).collect());
            }
        }
        let variable = argument.get_env().map(|variable| variable.to_string_lossy().into_owned());
        add("variable", variable.into_iter().collect());
        writeln!(table, "| {} | {meaning} |", spelled(argument)).unwrap();
    }
    table
}

fn page() -> String {
    let navlock = navlock();
    let mut page = String::from(HEAD);
    page += "\n## Options of all commands\n\n";
    let common: Vec<_> = navlock.get_arguments().filter(|one| one.is_global_set()).collect();
    page += &table(&common);
    for command in all(&navlock).into_iter().skip(1) {
        let name = command.get_bin_name().expect("it was built");
        let about = command.get_long_about().or(command.get_about());
        let about = about.map(ToString::to_string).unwrap_or_default();
        write!(page, "\n## {name}\n\n{}\n", about.trim()).unwrap();
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").lines().map(str::trim);
        let usage = usage.collect::<Vec<_>>().join("\n");
        write!(page, "\n```text\n{usage}\n```\n").unwrap();
        let arguments = own_arguments(command);
        if !arguments.is_empty() {
            write!(page, "\n{}", table(&arguments)).unwrap();
        }
        if let Some(more) = command.get_after_long_help() {
            write!(page, "\n```text\n{}\n```\n", more.to_string().trim_end()).unwrap();
        }
    }
    page
}

#[test]
fn the_reference_of_the_book_is_that_of_the_command_line() {
    let is_current = read(PAGE) == page();
    assert!(is_current, "{PAGE} is not what the command line is: run `cargo xtask book`");
}

#[test]
#[ignore = "it writes docs/command-reference.md: `cargo xtask book` runs it"]
fn writes_the_reference_of_the_book() {
    fs::write(root().join(PAGE), page()).unwrap();
}

/// The lines of the documents that run `navlock`, from its name on and without what follows the first `--`.
fn lines_of_documents() -> Vec<(String, String)> {
    let files = fs::read_dir(root().join("docs")).unwrap();
    let files = files.map(|file| PathBuf::from("docs").join(file.unwrap().file_name()));
    let pages = files.filter(|file| file.extension().is_some_and(|extension| extension == "md"));
    let pages = pages.map(|page| page.to_str().unwrap().to_owned());
    let pages = pages.filter(|page| page != PAGE);
    let mut lines = Vec::new();
    for page in pages.chain(["README.md", "npm/navlock/README.md"].map(str::to_owned)) {
        let mut language = "";
        for line in read(&page).lines() {
            if let Some(after) = line.trim_start().strip_prefix("```") {
                language = after.trim();
            } else if ["console", "sh"].contains(&language) {
                let line = line.split('#').next().unwrap_or_default();
                let line = line.split(" -- ").next().unwrap_or_default();
                let ours = line.split_once("navlock ").filter(|(before, _)| {
                    before.is_empty()
                        || before.ends_with([' ', '(', '/']) && !before.contains("cargo")
                });
                lines.extend(ours.map(|(_, ours)| (page.clone(), ours.to_owned())));
            }
        }
    }
    lines
}

#[test]
fn the_documents_name_commands_and_flags_that_there_are() {
    let navlock = navlock();
    let lines = lines_of_documents();
    assert!(lines.len() > 30, "lines are found: {}", lines.len());
    for (page, line) in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut command = &navlock;
        for word in words.iter().filter(|word| !word.starts_with('-')) {
            match command.find_subcommand(word) {
                Some(below) => command = below,
                None => break,
            }
        }
        assert_ne!(
            command.get_name(),
            "navlock",
            "{page}: there is no such command: navlock {line}"
        );
        for flag in words.iter().filter_map(|word| word.strip_prefix("--")) {
            let flag = flag.split(['=', '`', ')']).next().unwrap_or_default();
            let is_known =
                command.get_arguments().any(|argument| argument.get_long() == Some(flag));
            assert!(is_known, "{page}: there is no --{flag}: navlock {line}");
        }
    }
}

#[test]
fn the_book_lists_all_variables_of_the_command_line() {
    let (navlock, listed) = (navlock(), read("docs/environment.md"));
    let variables = all(&navlock).into_iter().flat_map(Command::get_arguments);
    let variables: Vec<_> = variables.filter_map(Arg::get_env).collect();
    assert!(!variables.is_empty());
    for variable in variables {
        let variable = variable.to_str().unwrap();
        assert!(listed.contains(&format!("`{variable}`")), "docs/environment.md has no {variable}");
    }
}

/// The words of events are read from the source of `Change::word`, so that a new event is not forgotten here.
#[test]
fn the_help_of_watch_has_each_event_that_watch_writes() {
    let source = read("crates/core/src/look/event.rs");
    let (_, word) = source.split_once("fn word(&self)").unwrap();
    let (word, _) = word.split_once("\n    }\n").unwrap();
    let words = word.split('"').skip(1).step_by(2);
    // These words are not of changes: `Lines` and `watch` write them.
    let words: Vec<&str> = words
        .chain(["held", "pending", "owned", "picture", "inside", "missed", "left-out"])
        .collect();
    assert!(words.contains(&Change::Recovered.word()), "words are found: {words:?}");
    let navlock = navlock();
    let watch = navlock.find_subcommand("watch").unwrap();
    let help = watch.get_after_long_help().unwrap().to_string();
    let (events, _) = help.split_once("With --json each line").unwrap();
    let is_between = |letter: char| !letter.is_ascii_alphabetic() && letter != '-';
    let listed: Vec<&str> = events.split(is_between).collect();
    for word in words {
        assert!(listed.contains(&word), "the help of watch has no {word}");
    }
}

#[test]
fn the_book_has_each_exit_code_of_a_command() {
    let listed = read("docs/exit-codes.md");
    let navlock = navlock();
    let run = navlock.find_subcommand("run").unwrap();
    let help = run.get_after_long_help().unwrap().to_string();
    let (_, codes) = help.split_once("Exit codes:").unwrap();
    let codes = codes.split("\n\n").next().unwrap().lines();
    let words = codes.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    let codes: Vec<&str> = words.filter(|word| word.parse::<u8>().is_ok()).collect();
    assert_eq!(codes, ["1", "64", "69", "70", "75", "126", "127"]);
    for code in codes {
        let begins = |line: &str| {
            line.strip_prefix("| ")
                .and_then(|row| row.strip_prefix(code))
                .is_some_and(|rest| rest.starts_with([' ', ',']))
        };
        assert!(listed.lines().any(begins), "docs/exit-codes.md has no row for {code}");
    }
}
