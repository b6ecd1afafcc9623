//! The crates, as crates.io would have them.

use std::{collections::BTreeSet, process::Command};

use crate::run::{Result, cargo, root, run, said, within};

use super::empty;

pub(super) fn crates() -> Result<String> {
    let names = published()?;
    // All at once, so that each is built with the others as they are packaged, in the order of their
    // dependencies. The folder is the usual one, which has what they depend on.
    let mut package = cargo(&["package", "--allow-dirty", "--locked"]);
    package.args(names.iter().flat_map(|name| ["--package", name]));
    run(&mut within(60, &package))?;
    for name in &names {
        let packed = root().join(format!("target/package/{name}-{}.crate", super::version()));
        let list = said(Command::new("tar").arg("-tzf").arg(&packed))?;
        for file in ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE", "src/"] {
            let file = format!("{name}-{}/{file}", super::version());
            if !list.lines().any(|line| line.starts_with(&file)) {
                return Err(format!("{} has no {file}", packed.display()));
            }
        }
        // Tests of a module may be there; suites need what is not published.
        let suites = format!("{name}-{}/tests/", super::version());
        if list.lines().any(|line| line.starts_with(&suites)) {
            return Err(format!(
                "{} has suites, which need what is not published",
                packed.display()
            ));
        }
        std::fs::copy(&packed, empty(&format!("crates/{name}"))?.join(format!("{name}.crate")))
            .map_err(|error| format!("{}: {error}", packed.display()))?;
    }
    Ok(format!("{} crates are built from what is packaged", names.len()))
}

/// Crates that are published, as cargo says them.
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
