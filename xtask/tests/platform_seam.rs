//! Code for an operating system stands in the platform's crate. Apart from memory that processes share,
//! nothing else that is published names a system.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Words that name an operating system, or something that only some systems have.
const NAMES: [&str; 18] = [
    "cfg(unix",
    "cfg(not(unix",
    "cfg(windows",
    "cfg(not(windows",
    "target_os",
    "target_family",
    "target_vendor",
    "std::os::",
    "os::fd",
    // This also finds `unix::` and `tokio::net::unix`.
    "nix::",
    "UnixStream",
    "UnixListener",
    "UnixDatagram",
    "tokio::signal",
    "rustix",
    "signal_hook",
    "libc::",
    "windows_sys",
];

/// Libraries that exist on some systems only, or that mean something else on each.
const LIBRARIES: [&str; 5] = ["libc", "nix", "rustix", "signal-hook", "windows-sys"];

/// The crates that may use these libraries.
const SEAM: [&str; 2] = ["navlock-platform", "navlock-delegation"];

/// The files outside the platform's crate that may name a system: they use memory that processes share.
const SHARED_MEMORY: [&str; 2] = ["crates/delegation/src/linux", "crates/delegation/src/lib.rs"];

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().expect("the workspace is there")
}

/// The crates that are published: name, folder, and libraries that they use outside their tests.
fn published() -> Vec<(String, PathBuf, Vec<String>)> {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps"])
        .current_dir(root())
        .output()
        .expect("cargo can be run");
    let metadata: serde_json::Value =
        serde_json::from_slice(&metadata.stdout).expect("cargo metadata is JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("it is text").to_owned();
    let packages = metadata["packages"].as_array().expect("there are packages");
    // These two are published in packages of npm and of Python, and not as crates.
    let is_published = |package: &&serde_json::Value| {
        package["publish"].is_null()
            || ["navlock-node", "navlock-python"].iter().any(|name| package["name"] == *name)
    };
    let published = packages.iter().filter(is_published).map(|package| {
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let folder = manifest.parent().expect("a manifest is in a folder").to_owned();
        let used = package["dependencies"].as_array().expect("a list").iter();
        let used = used.filter(|used| used["kind"] != "dev").map(|used| text(&used["name"]));
        (text(&package["name"]), folder, used.collect())
    });
    published.collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder can be read");
    let paths = entries.map(|entry| entry.expect("a folder can be read").path());
    let found = paths.map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    found.flatten().filter(|path| path.extension().is_some_and(|is| is == "rs")).collect()
}

/// The part of a file before its tests, which may name the system that they run on.
fn before_tests(text: &str) -> &str {
    let tests = [
        "\n#[cfg(test)]\nmod tests {",
        // Tests for some systems alone.
        "\n#[cfg(test)]\n#[cfg(",
        "\n#[cfg(all(test,",
    ];
    let end = tests.iter().filter_map(|start| text.find(start)).min();
    &text[..end.unwrap_or(text.len())]
}

#[test]
fn nothing_outside_the_platform_seam_names_an_operating_system() {
    let (root, mut seen, mut found) = (root(), 0, Vec::new());
    for (name, folder, _) in published() {
        if name == "navlock-platform" {
            continue;
        }
        for path in sources(&folder.join("src")) {
            let shown = path.strip_prefix(&root).expect("it is in the workspace");
            let is_tests = path.file_name().is_some_and(|name| name == "tests.rs");
            if is_tests || SHARED_MEMORY.iter().any(|excepted| shown.starts_with(excepted)) {
                continue;
            }
            seen += 1;
            let text = fs::read_to_string(&path).expect("a source is text");
            // This names no operating system: it is the target of a page.
            let text = text.replace("target_os = \"unknown\"", "");
            for (number, line) in before_tests(&text).lines().enumerate() {
                found.extend(
                    NAMES
                        .iter()
                        .filter(|name| line.contains(**name))
                        .map(|name| format!("{}:{}: {name}", shown.display(), number + 1)),
                );
            }
        }
    }
    assert!(seen > 200, "{seen} sources are not all there are");
    assert!(found.is_empty(), "these belong in crates/platform:\n{}", found.join("\n"));
}

#[test]
fn no_crate_but_the_seam_depends_on_libraries_of_an_operating_system() {
    for (name, _, used) in published() {
        if !SEAM.contains(&&*name) {
            let wrong: Vec<_> = used.iter().filter(|used| LIBRARIES.contains(&&***used)).collect();
            assert!(wrong.is_empty(), "{name} depends on {wrong:?}, which crates/platform has");
        }
    }
}
