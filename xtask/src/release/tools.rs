//! The programs that make packages, from crates.io, in a folder of their own.

use std::{path::PathBuf, process::Command};

use crate::run::{Result, cargo, root, run, within};

/// The folder of these programs.
pub(super) fn programs() -> PathBuf {
    root().join("target/cross/tools/bin")
}

/// Installs the program of a crate, unless it is installed. The versions that callers name were seen to work.
pub(super) fn tool(krate: &str, version: &str) -> Result<PathBuf> {
    let program = programs().join(krate);
    if !program.exists() {
        let mut install = cargo(&["install", "--locked", "--debug", "--version", version, krate]);
        install.arg("--root").arg(root().join("target/cross/tools"));
        install.env("CARGO_TARGET_DIR", root().join("target/cross/tools-build"));
        run(&mut within(40, &install))?;
    }
    Ok(program)
}

/// A subcommand of cargo, such as `cargo deb`: its program takes the subcommand's name as first argument.
pub(super) fn subcommand(krate: &str, version: &str) -> Result<Command> {
    let mut command = Command::new(tool(krate, version)?);
    command.arg(krate.trim_start_matches("cargo-")).current_dir(root());
    Ok(command)
}
