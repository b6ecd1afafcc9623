//! The crates that the command is made of: a list in the program itself, by cargo-auditable, and a list
//! beside the program, in the form that `cargo-cyclonedx` writes.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::Value;

use crate::{
    cross,
    run::{Result, root, run, said, within},
};

use super::{
    folder, sum_up, time_of_commit,
    tools::{subcommand, tool},
    version,
};

/// Crates that must be in both lists: some of ours, the async runtime, and the TLS library.
const KNOWN: [&str; 6] =
    ["navlock-cli", "navlock-engine", "navlock-etcd", "navlock-postgres", "tokio", "rustls"];

pub(super) fn bom() -> Result<String> {
    let program = cross::static_program()?;
    let audited = audited(&program)?;
    let listed = listed()?;
    for known in KNOWN {
        for (what, names) in [("the program", &audited), ("the list", &listed)] {
            if !names.iter().any(|(name, _)| name == known) {
                return Err(format!("{what} does not say that {known} is in it"));
            }
        }
    }
    // The list may have more crates: those that are needed only to build.
    let missing: Vec<_> = audited.difference(&listed).collect();
    if !missing.is_empty() {
        return Err(format!("in the program, and not in the list beside it: {missing:?}"));
    }
    sum_up()?;
    Ok(format!(
        "{} crates in the program, all of them among the {} of the list",
        audited.len(),
        listed.len()
    ))
}

/// The crates that the program says it is made of, with their versions.
fn audited(program: &Path) -> Result<BTreeSet<(String, String)>> {
    let text = said(Command::new(tool("rust-audit-info", "0.5.4")?).arg(program))?;
    let found: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    // Crates that are needed only to build are not in the program.
    let packages = found["packages"].as_array().into_iter().flatten();
    let packages = packages.filter(|package| package["kind"] != "build");
    Ok(packages.filter_map(name_and_version).collect())
}

/// Makes the list, and returns its crates.
fn listed() -> Result<BTreeSet<(String, String)>> {
    let mut command = subcommand("cargo-cyclonedx", "0.5.9")?;
    command.args(["--manifest-path", "crates/cli/Cargo.toml", "--format", "json", "--all"]);
    command.args(["--features", "etcd,postgres,tls", "--target", cross::MUSL]);
    command.args(["--override-filename", "navlock.cdx"]);
    command.env("SOURCE_DATE_EPOCH", time_of_commit()?);
    let made = run(&mut within(10, &command));
    // cargo-cyclonedx writes a list for each crate of the workspace. One of them is read; all are removed.
    let to = folder().join(format!("navlock-{}.cdx.json", version()));
    let ours = root().join("crates/cli/navlock.cdx.json");
    let text = fs::read_to_string(&ours).map_err(|error| format!("{}: {error}", ours.display()));
    let strewn = r"find . -path ./target -prune -o -name navlock.cdx.json -exec rm -- {} +";
    run(Command::new("sh").args(["-c", strewn]).current_dir(root()))?;
    made?;
    // The path of this checkout does not belong in the list.
    let text = text?.replace(&*root().to_string_lossy(), "/navlock");
    fs::write(&to, &text).map_err(|error| format!("{}: {error}", to.display()))?;
    let found: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let components = found["components"].as_array().into_iter().flatten();
    let itself = found["metadata"].get("component").into_iter();
    Ok(components.chain(itself).filter_map(name_and_version).collect())
}

fn name_and_version(of: &Value) -> Option<(String, String)> {
    Some((of["name"].as_str()?.to_owned(), of["version"].as_str()?.to_owned()))
}
