//! The Homebrew formula and the Nix flake: filled in with what was made, and read by Ruby and Nix.

use std::{fs, process::Command};

use crate::{
    cross,
    run::{Result, root, run, said, within},
};

use super::{archive, empty, folder, version};

pub(super) fn templates() -> Result<String> {
    let sums = folder().join("SHA256SUMS");
    let sums = fs::read_to_string(&sums).map_err(|error| format!("{}: {error}", sums.display()))?;
    let archive = format!("{}.tar.gz", archive::name());
    let sum =
        sums.lines().find(|line| line.ends_with(&archive)).and_then(|line| line.split(' ').next());
    let sum = sum.ok_or_else(|| format!("{archive} has no checksum; make it first"))?;
    let to = empty("templates")?;
    for file in ["homebrew/navlock.rb", "nix/flake.nix"] {
        let template = root().join("contrib").join(file);
        let text = fs::read_to_string(&template)
            .map_err(|error| format!("{}: {error}", template.display()))?;
        let text = text.replace("@VERSION@", version()).replace("@SHA256@", sum);
        if text.contains('@') && text.contains("@VERSION@") {
            return Err(format!("{} is not filled in", template.display()));
        }
        let name = template.file_name().unwrap_or_default();
        fs::write(to.join(name), text).map_err(|error| error.to_string())?;
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
