//! The crates, as crates.io would have them.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path, process::Command};

use crate::run::{Result, cargo, root, run, said, within};

use super::{empty, version};

pub(super) fn crates() -> Result<String> {
    let names = published()?;
    // All crates are packaged at once, so that each finds the packages of the others as its dependencies.
    // Cargo would then build each of them with all its dependencies. To see that the packages are complete,
    // it is enough to check them, which takes less time.
    let mut package = cargo(&["package", "--allow-dirty", "--locked", "--no-verify"]);
    package.args(names.iter().flat_map(|name| ["--package", name]));
    run(&mut within(10, &package))?;
    let unpacked = empty("crates")?;
    for name in &names {
        let packed = root().join(format!("target/package/{name}-{}.crate", version()));
        look_into(name, &packed)?;
        run(Command::new("tar").arg("-xzf").arg(&packed).arg("-C").arg(&unpacked))?;
        fs::copy(&packed, unpacked.join(format!("{name}.crate")))
            .map_err(|error| format!("{}: {error}", packed.display()))?;
    }
    let manifest = unpacked.join("Cargo.toml");
    fs::write(&manifest, workspace(&names))
        .and_then(|()| fs::copy(root().join("Cargo.lock"), unpacked.join("Cargo.lock")))
        .map_err(|error| format!("{}: {error}", manifest.display()))?;
    // First each crate alone: it may need a feature that another crate has switched on. Then all, with all
    // features.
    for name in &names {
        check(&unpacked, &["--package", name])?;
    }
    check(&unpacked, &["--workspace", "--all-features"])?;
    Ok(format!(
        "{} crates compile from what is packaged, each alone and all with all features",
        names.len()
    ))
}

/// Checks that a package has the files that it must have, and no suites.
fn look_into(name: &str, packed: &Path) -> Result {
    let list = said(Command::new("tar").arg("-tzf").arg(packed))?;
    for file in ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE", "src/"] {
        let file = format!("{name}-{}/{file}", version());
        if !list.lines().any(|line| line.starts_with(&file)) {
            return Err(format!("{} has no {file}", packed.display()));
        }
    }
    // Unit tests may be in a package. Suites need crates that are not published.
    let suites = format!("{name}-{}/tests/", version());
    if list.lines().any(|line| line.starts_with(&suites)) {
        return Err(format!("{} has suites, which need what is not published", packed.display()));
    }
    Ok(())
}

/// The manifest of a workspace of the packaged crates, in which they are each other's dependencies.
fn workspace(names: &BTreeSet<String>) -> String {
    let folder = |name: &str| format!("{name}-{}", version());
    let members: Vec<_> = names.iter().map(|name| folder(name)).collect();
    let mut text =
        format!("[workspace]\nresolver = \"3\"\nmembers = {members:?}\n\n[patch.crates-io]\n");
    for name in names {
        let _ = writeln!(text, "{name} = {{ path = {:?} }}", folder(name));
    }
    text
}

/// Has the compiler check the unpacked crates that `which` selects. The target folder is the usual one.
fn check(unpacked: &Path, which: &[&str]) -> Result {
    let mut check = cargo(&["check", "--quiet"]);
    check.args(which).current_dir(unpacked).env("CARGO_TARGET_DIR", root().join("target"));
    run(&mut within(60, &check))
}

/// The names of the crates that are published, from cargo's metadata.
fn published() -> Result<BTreeSet<String>> {
    let metadata = said(&mut cargo(&["metadata", "--format-version=1", "--no-deps"]))?;
    let metadata: serde_json::Value =
        serde_json::from_str(&metadata).map_err(|error| error.to_string())?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let names: BTreeSet<String> = packages
        .filter(|package| package["publish"].is_null())
        .filter_map(|package| package["name"].as_str().map(str::to_owned))
        .collect();
    if names.is_empty() { Err("there is no crate to publish".to_owned()) } else { Ok(names) }
}
