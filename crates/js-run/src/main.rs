//! Runs scripts on a JavaScript engine written in or embedded into Rust, with `navigator.locks`: an
//! example of an embedder, and what the conformance suite and the web-platform-tests run in.

mod agent;
mod args;
mod host;
mod locks;
mod mailbox;
mod processes;
mod shared;
mod timers;
mod vm;
mod workers;

use std::process::ExitCode;

fn main() -> ExitCode {
    args::parse().map_or_else(|code| code, agent::run_main)
}
