//! Runs scripts with `navigator.locks` on a JavaScript engine that is written in Rust or embedded
//! into it. This is an example of an embedder. The conformance suite and the web-platform-tests run
//! in it.

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
