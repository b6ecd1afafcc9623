//! Crates depend only in the direction that ARCHITECTURE.md draws.

use std::{collections::BTreeMap, process::Command};

/// Each crate, with those of ours that it may depend on outside its tests.
const MAY_DEPEND_ON: [(&str, &[&str]); 24] = [
    ("navlock-platform", &[]),
    ("navlock-engine", &[]),
    ("navlock-core", &["navlock-engine"]),
    ("navlock-delegation", &["navlock-engine"]),
    ("navlock-wire", &["navlock-engine", "navlock-core"]),
    (
        "navlock-broker",
        &[
            "navlock-platform",
            "navlock-engine",
            "navlock-core",
            "navlock-delegation",
            "navlock-wire",
        ],
    ),
    ("navlock-machines", &["navlock-platform", "navlock-engine", "navlock-core"]),
    ("navlock-etcd-client", &[]),
    ("navlock-etcd", &["navlock-core", "navlock-machines", "navlock-etcd-client"]),
    ("navlock-postgres", &["navlock-core", "navlock-machines"]),
    ("navlock-browser", &["navlock-core"]),
    (
        "navlock",
        &["navlock-core", "navlock-broker", "navlock-etcd", "navlock-postgres", "navlock-browser"],
    ),
    (
        "navlock-cli",
        &["navlock-platform", "navlock", "navlock-broker", "navlock-etcd", "navlock-postgres"],
    ),
    ("navlock-node", &["navlock", "navlock-platform"]),
    ("navlock-python", &["navlock"]),
    ("navlock-js", &["navlock-core"]),
    ("navlock-boa", &["navlock", "navlock-js"]),
    ("navlock-rquickjs", &["navlock", "navlock-js"]),
    // These crates are not published and stand above everything: no published crate may depend on them.
    ("navlock-testkit", &["navlock-platform", "navlock-engine", "navlock-core"]),
    (
        "navlock-benches",
        &[
            "navlock",
            "navlock-broker",
            "navlock-core",
            "navlock-engine",
            "navlock-etcd-client",
            "navlock-postgres",
            "navlock-platform",
            "navlock-wire",
            "navlock-boa",
            "navlock-rquickjs",
            "navlock-testkit",
        ],
    ),
    ("navlock-js-run", &["navlock", "navlock-core", "navlock-boa", "navlock-rquickjs"]),
    ("navlock-one-face", &["navlock", "navlock-js"]),
    (
        "navlock-torture",
        &[
            "navlock",
            "navlock-core",
            "navlock-etcd-client",
            "navlock-machines",
            "navlock-postgres",
            "navlock-testkit",
        ],
    ),
    ("xtask", &[]),
];

#[test]
fn crates_depend_only_in_the_direction_drawn() {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo can be run");
    let metadata: serde_json::Value =
        serde_json::from_slice(&metadata.stdout).expect("cargo metadata is JSON");
    let allowed: BTreeMap<&str, &[&str]> = MAY_DEPEND_ON.into_iter().collect();

    let packages = metadata["packages"].as_array().expect("there are packages");
    assert!(packages.len() >= 10, "cargo metadata shows the whole workspace");
    let names: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    for package in packages {
        let name = package["name"].as_str().expect("a package has a name");
        let may = allowed.get(name).unwrap_or_else(|| panic!("{name} is not drawn"));
        for dependency in package["dependencies"].as_array().expect("a list") {
            let on = dependency["name"].as_str().expect("a dependency has a name");
            let in_tests_only = dependency["kind"] == "dev";
            if names.contains(&on) && !in_tests_only {
                assert!(may.contains(&on), "{name} depends on {on}: not in the direction drawn");
            }
        }
    }
}
