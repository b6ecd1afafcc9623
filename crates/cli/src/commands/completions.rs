//! `navlock completions`: for shells.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::{
    args::{Cli, CompletionsArgs},
    exit::Failure,
    terminal::write_out,
};

pub(super) fn completions(args: &CompletionsArgs) -> Result<ExitCode, Failure> {
    // The script is not written straight into the stream, because `generate` panics if that fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "navlock", &mut script);
    write_out(&script).map_err(|error| Failure::of_writing(&error))?;
    Ok(ExitCode::SUCCESS)
}
