//! `navlock`: named locks for commands, shared by all processes of a user.

#![forbid(unsafe_code)]
// The macros that print panic if the stream fails. `exit::say` does not panic.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod append;
mod args;
mod client_rows;
mod commands;
mod counts;
mod exit;
mod faults;
mod json;
mod log;
mod parse;
#[cfg(any(feature = "top", feature = "web"))]
#[cfg_attr(
    not(all(feature = "top", feature = "web")),
    allow(dead_code, reason = "each of the two needs a part of it")
)]
mod picture;
mod reach;
mod remedy;
mod settings;
#[cfg(any(feature = "top", feature = "web"))]
mod steal;
mod terminal;
mod text;
mod text_table;
mod time;
mod verbosity;
mod wait_tree;
mod waiting;
#[cfg(feature = "web")]
mod web;

use std::process::ExitCode;

fn main() -> ExitCode {
    navlock_platform::signal::outlive_file_limit();
    match parse::parse() {
        Ok(args) => commands::dispatch(args).unwrap_or_else(exit::Failure::report),
        Err(refusal) => parse::report_refusal(&refusal),
    }
}
