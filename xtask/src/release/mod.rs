//! `cargo xtask release --dry-run`: all that a release is made of, made and tried here, and not published.
//!
//! Each step makes its part in `target/release-dry-run` and has it do what its users will: archives are
//! unpacked in an empty root and installed by the script, the .deb in a fresh Debian, the npm packages in an empty
//! project on four runtimes. The real release is made by a tag (`.github/workflows/release.yml`), by the
//! same steps; `docs/releasing.md` says how.

mod archive;
mod bom;
mod container;
mod crates;
mod deb;
mod npm;
mod templates;
mod tools;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use crate::run::{Result, root, run, said};

const USAGE: &str = "\
usage: cargo xtask release --dry-run [STEP…]     (without any, all; in this order)

  crates      package every crate, and have them checked as packaged, each alone and all with all features
  archive     the static command with its manual and completions; in an empty root, and by the script
  bom         what the command is made of: in the program, and as a list beside it
  deb         a package for Debian, installed in a fresh one and removed
  container   an image with the command alone, beside another container
  npm         the packages of npm, installed in an empty project on four runtimes
  templates   the Homebrew formula and the Nix flake, filled in

  needs root (crates and npm do not), Node 20 for npm, and what `cargo xtask cross musl` needs; installs with
  apt-get, cargo, npm and pip what is missing: debootstrap, buildah, ruby, nix-bin; cargo-deb, cargo-auditable,
  cargo-cyclonedx, rust-audit-info; what the npm package is developed with";

type Step = (&'static str, fn() -> Result<String>);

const STEPS: [Step; 7] = [
    ("crates", crates::crates),
    ("archive", archive::archive),
    ("bom", bom::bom),
    ("deb", deb::deb),
    ("container", container::container),
    ("npm", npm::npm),
    ("templates", templates::templates),
];

pub(crate) fn release(arguments: &[&str]) -> Result {
    let ["--dry-run", wanted @ ..] = arguments else {
        return Err(format!("a release is made by its tag (docs/releasing.md)\n{USAGE}"));
    };
    if let Some(other) = wanted.iter().find(|wanted| STEPS.iter().all(|(name, _)| name != *wanted))
    {
        return Err(format!("there is no step `{other}`\n{USAGE}"));
    }
    println!("{USAGE}");
    fs::create_dir_all(folder()).map_err(|error| format!("{}: {error}", folder().display()))?;
    let mut done = Vec::new();
    for (name, step) in STEPS.iter().filter(|(name, _)| wanted.is_empty() || wanted.contains(name))
    {
        println!("\n=== release {name}");
        let began = Instant::now();
        let found =
            step().map_err(|error| format!("cargo xtask release failed in {name}:\n{error}"))?;
        done.push(format!("{name}: {found} ({} s)", began.elapsed().as_secs()));
    }
    println!("\n{}\nnothing was published", done.join("\n"));
    Ok(())
}

/// Where all is made.
fn folder() -> PathBuf {
    root().join("target/release-dry-run")
}

/// The version that would be released.
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// An empty folder of this name.
fn empty(name: &str) -> Result<PathBuf> {
    let path = folder().join(name);
    if path.exists() {
        fs::remove_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// A script of the shell, which is ended after so many minutes, with these words.
fn shell(minutes: u32, script: &str, words: &[&Path]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-euc", script, "sh"]).args(words).current_dir(folder());
    crate::run::within(minutes, &command)
}

/// Writes `SHA256SUMS` anew, of all that users fetch.
fn sum_up() -> Result {
    let script = "sha256sum -- *.tar.gz *.deb *.cdx.json *.tgz 2>/dev/null >SHA256SUMS || test -s SHA256SUMS";
    run(&mut shell(5, script, &[]))
}

/// When the commit was made: what is packed has this time, so that it comes out the same again.
fn time_of_commit() -> Result<String> {
    said(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_published_from_here() {
        assert!(release(&[]).unwrap_err().contains("made by its tag"));
        assert!(release(&["--dry-run", "moon"]).unwrap_err().contains("no step `moon`"));
    }
}
