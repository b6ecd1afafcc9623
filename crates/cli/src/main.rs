//! `navlock`: named locks for commands, shared by all processes of a user.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod exit;

use std::process::ExitCode;

fn main() -> ExitCode {
    match args::parse() {
        Ok(args) => commands::dispatch(args).unwrap_or_else(exit::Failure::report),
        Err(shown) => exit::after_clap(&shown),
    }
}
