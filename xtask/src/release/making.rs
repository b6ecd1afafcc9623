//! What all steps of a release need: the folder in which they work, and small functions that they share.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::run::{Result, root, run, said};

/// The folder in which all parts of a release are made.
pub(super) fn folder() -> PathBuf {
    root().join("target/release-dry-run")
}

/// The version that would be released.
pub(super) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// An empty folder of this name.
pub(super) fn empty(name: &str) -> Result<PathBuf> {
    let path = folder().join(name);
    if path.exists() {
        fs::remove_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// A shell script with the arguments `words`, which is ended after so many minutes.
pub(super) fn shell(minutes: u32, script: &str, words: &[&Path]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-euc", script, "sh"]).args(words).current_dir(folder());
    crate::run::within(minutes, &command)
}

/// Writes `SHA256SUMS` anew, of all files that users download.
pub(super) fn sum_up() -> Result {
    let script = "sha256sum -- *.tar.gz *.deb *.cdx.json *.tgz 2>/dev/null >SHA256SUMS || test -s SHA256SUMS";
    run(&mut shell(5, script, &[]))
}

/// The time of the commit. What is made bears this time, so that it comes out the same again.
pub(super) fn time_of_commit() -> Result<String> {
    said(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()))
}
