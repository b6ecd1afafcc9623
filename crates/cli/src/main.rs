//! `navlock`: named locks for commands, shared by all processes of a user.

// There `beginning` has what the program begins with.
#![cfg_attr(all(target_os = "linux", target_env = "gnu", not(test)), no_main)]
#![deny(unsafe_code)]
// Both panic when the stream fails; `exit::say` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod args;
#[cfg(all(target_os = "linux", target_env = "gnu", not(test)))]
mod beginning;
mod commands;
mod descriptors;
mod dispositions;
mod exit;
mod faults;
mod json;
mod reach;
mod settings;
mod surroundings;
mod table;
mod terminal;
mod text;
mod time;
mod voice;
mod waiting;

#[cfg(any(not(all(target_os = "linux", target_env = "gnu")), test))]
fn main() {
    navlock().exit();
}

fn navlock() -> exit::ExitCode {
    match args::parse() {
        Ok(args) => commands::dispatch(args).unwrap_or_else(exit::Failure::report),
        Err(shown) => exit::after_clap(&shown),
    }
}
