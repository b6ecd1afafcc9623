//! What makes packages, from crates.io, in a folder of its own.

use std::{path::PathBuf, process::Command};

use crate::run::{Result, cargo, root, run, within};

/// Where these programs are.
pub(super) fn programs() -> PathBuf {
    root().join("target/cross/tools/bin")
}

/// Installs this program of this crate, unless it is there. Releases that were seen to work.
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

/// `cargo deb` and the like, which are no programs for themselves.
pub(super) fn subcommand(krate: &str, version: &str) -> Result<Command> {
    let mut command = Command::new(tool(krate, version)?);
    command.arg(krate.trim_start_matches("cargo-")).current_dir(root());
    Ok(command)
}
