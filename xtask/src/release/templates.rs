//! The Homebrew formula and the Nix flake: filled in with what was made, and read by Ruby and Nix.

use std::{fmt::Write as _, fs, path::Path, process::Command};

use crate::{
    cross,
    run::{Result, root, run, said, within},
};

use super::{archive, empty, folder, version};

/// The targets of a release's archives that the formula names. One of them is made here.
const ARCHIVES: [&str; 4] = [
    "aarch64-apple-darwin",
    "aarch64-unknown-linux-musl",
    "x86_64-apple-darwin",
    "x86_64-unknown-linux-musl",
];

pub(super) fn templates() -> Result<String> {
    let made = folder().join("SHA256SUMS");
    let known =
        fs::read_to_string(&made).map_err(|error| format!("{}: {error}", made.display()))?;
    if !known.contains(&format!("{}.tar.gz\n", archive::name())) {
        return Err(
            "the archive comes first: cargo xtask release --dry-run archive templates".to_owned()
        );
    }
    let to = empty("templates")?;
    let sums = to.join("SHA256SUMS");
    let write =
        |text: &str| fs::write(&sums, text).map_err(|error| format!("{}: {error}", sums.display()));

    // A template must be refused if a checksum that it names is missing.
    write(&known)?;
    if let Ok(filled) = filled_in("homebrew/navlock.rb", &sums) {
        return Err(format!("the formula is filled in without all checksums:\n{filled}"));
    }
    let mut all = known;
    for (number, target) in ARCHIVES.iter().filter(|target| **target != cross::MUSL).enumerate() {
        let _ = writeln!(all, "{number:064x}  navlock-{}-{target}.tar.gz", version());
    }
    write(&all)?;
    for template in ["homebrew/navlock.rb", "nix/flake.nix"] {
        let name = Path::new(template).file_name().unwrap_or_default();
        fs::write(to.join(name), filled_in(template, &sums)?).map_err(|error| error.to_string())?;
    }
    let formula = fs::read_to_string(to.join("navlock.rb")).map_err(|error| error.to_string())?;
    for target in ARCHIVES {
        let name = format!("navlock-{}-{target}.tar.gz", version());
        let sum = all.lines().find_map(|line| line.strip_suffix(&name)).unwrap_or_default().trim();
        let mut lines = formula.lines().skip_while(|line| !line.contains(&format!("/{name}\"")));
        if !lines.nth(1).is_some_and(|next| next.contains(sum)) {
            return Err(format!("the formula does not say {sum} after {name}:\n{formula}"));
        }
    }

    cross::install(&[("ruby", "ruby"), ("nix-instantiate", "nix-bin")])?;
    run(&mut within(1, Command::new("ruby").args(["-c", "navlock.rb"]).current_dir(&to)))?;
    let parsed = said(&mut within(
        1,
        Command::new("nix-instantiate").args(["--parse", "flake.nix"]).current_dir(&to),
    ))?;
    if !parsed.contains("buildRustPackage") {
        return Err("the flake builds nothing".to_owned());
    }
    Ok("the formula is Ruby, and the flake is Nix; neither Homebrew nor Nix built it".to_owned())
}

/// A template of the repository, with this version and these checksums.
fn filled_in(template: &str, sums: &Path) -> Result<String> {
    let mut fill_in = Command::new("sh");
    fill_in.arg(root().join("contrib/fill-in.sh")).arg(root().join("contrib").join(template));
    said(fill_in.arg(version()).arg(sums)).map(|text| text + "\n")
}
