//! Crates that build with an older Rust have no chain of `let` in a condition, which Clippy lets pass.

mod repository;

use std::collections::HashMap;

use self::repository::{files, read};

/// The release that has them.
const CHAINS: u32 = 88;

/// The release of Rust 1 that a manifest promises, if it promises another one than the workspace.
fn release(manifest: &str) -> Option<u32> {
    let (_, version) = manifest.split_once("rust-version = \"1.")?;
    version.split('"').next()?.parse().ok()
}

/// The lines at which a condition goes on with a `let`, or after one.
fn chains(text: &str) -> Vec<&str> {
    let begins = ["if let ", "while let ", "} else if let "];
    let mut is_let = false;
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let found = lines.filter(|line| {
        is_let |= begins.iter().any(|begin| line.starts_with(begin));
        let goes_on = line.contains("&& let ") || is_let && line.starts_with("&& ");
        is_let &= !line.ends_with('{') && !line.ends_with('}');
        goes_on
    });
    found.collect()
}

#[test]
fn no_condition_needs_a_newer_rust() {
    let of_workspace = release(&read("Cargo.toml")).expect("it promises one");
    let manifests = files(&["Cargo.toml"]);
    let releases = manifests.iter().filter_map(|file| {
        let folder = file.strip_suffix("/Cargo.toml").filter(|file| file.starts_with("crates/"))?;
        Some((folder, release(&read(file)).unwrap_or(of_workspace)))
    });
    let releases: HashMap<_, _> = releases.collect();
    let is_old = |file: &&String| {
        let folder = file.split_once("/src/").map(|(folder, _)| folder);
        folder.and_then(|folder| releases.get(folder)).is_some_and(|release| *release < CHAINS)
    };
    let sources = files(&[".rs"]);
    let old: Vec<_> = sources.iter().filter(is_old).collect();
    assert!(old.len() > 200, "the sources are found");
    for file in old {
        let text = read(file);
        let found = chains(&text);
        assert!(found.is_empty(), "{file}: write this without a chain of let: {found:#?}");
    }
}

#[test]
fn a_chain_is_found() {
    assert_eq!(chains("if let Some(a) = b\n    && c\n{"), ["&& c"]);
    assert_eq!(chains("if let Some(a) = b\n    .c()\n    && d\n{"), ["&& d"]);
    assert_eq!(chains("if a && let Some(b) = c {"), ["if a && let Some(b) = c {"]);
    assert_eq!(chains("if a\n    && let Some(b) = c\n{"), ["&& let Some(b) = c"]);
    assert!(chains("if a\n    && b\n{\n    if let Some(c) = d {\n    }\n}").is_empty());
}
