//! `cargo xtask release --dry-run`: all that a release is made of, made and tried here, and not published.
//!
//! Each step makes its part in `target/release-dry-run`, and uses it as its users will: archives are unpacked
//! in an empty root and installed by the script, the .deb in a fresh Debian, the npm packages in an empty
//! project on four runtimes. A tag makes the real release (`.github/workflows/release.yml`), by the same
//! steps; `docs/releasing.md` says how.

mod archive;
mod bom;
mod container;
mod crates;
mod deb;
mod making;
mod npm;
mod python;
mod templates;
mod tools;

use std::{fs, time::Instant};

use self::making::{empty, folder, shell, sum_up, time_of_commit, version};
use crate::run::Result;

const USAGE: &str = "\
usage: cargo xtask release --dry-run [STEP…]     (without any, all; in this order)

  crates      package every crate, and have them checked as packaged, each alone and all with all features
  archive     the static command with its manual and completions; in an empty root, and by the script
  bom         what the command is made of: in the program, and as a list beside it
  deb         a package for Debian, installed in a fresh one and removed
  container   an image with the command alone, beside another container
  npm         the packages of npm, installed in an empty project on four runtimes
  python      the wheel, installed in an empty environment
  templates   the Homebrew formula and the Nix flake, filled in

  needs root (crates, npm and python do not), Node 20 for npm, and what `cargo xtask cross musl` needs; installs with
  apt-get, cargo, npm and pip what is missing: debootstrap, buildah, ruby, nix-bin; cargo-deb, cargo-auditable,
  cargo-cyclonedx, rust-audit-info; what the npm package is developed with";

type Step = (&'static str, fn() -> Result<String>);

const STEPS: [Step; 8] = [
    ("crates", crates::crates),
    ("archive", archive::archive),
    ("bom", bom::bom),
    ("deb", deb::deb),
    ("container", container::container),
    ("npm", npm::npm),
    ("python", python::python),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_published_from_here() {
        assert!(release(&[]).unwrap_err().contains("made by its tag"));
        assert!(release(&["--dry-run", "moon"]).unwrap_err().contains("no step `moon`"));
    }
}
