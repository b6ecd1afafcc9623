//! The files of a crate form no cycle: what two files need of each other stands in a third one.
//!
//! A file *uses* another one where its code names something that the other one defines, by whatever path. A
//! name is followed through imports and re-exports to the file of the definition. To declare a module, or to
//! re-export from it, is no use of it. Tests do not count. Calls of methods do not count either, because they
//! name no path: the methods of one type may stand in several files.

mod cycles;
mod methods;
mod modules;
mod uses;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use self::{
    cycles::{cycles, shown},
    modules::Modules,
};

/// Each crate with the roots of its libraries and programs.
fn crates() -> Vec<(String, Vec<PathBuf>)> {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo can be run");
    let metadata: serde_json::Value =
        serde_json::from_slice(&metadata.stdout).expect("cargo metadata is JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("it is text").to_owned();
    let packages = metadata["packages"].as_array().expect("there are packages");
    let is_code = |target: &&serde_json::Value| {
        let kinds = target["kind"].as_array().expect("a list");
        kinds.iter().any(|kind| ["lib", "bin", "cdylib", "proc-macro"].iter().any(|is| kind == is))
    };
    let crates = packages.iter().map(|package| {
        let targets = package["targets"].as_array().expect("a list").iter().filter(is_code);
        let roots = targets.map(|target| PathBuf::from(text(&target["src_path"])));
        (text(&package["name"]), roots.collect())
    });
    crates.collect()
}

/// Looks at each library and program of each crate.
fn each_target(mut look: impl FnMut(&str, &Modules<'_>)) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize();
    let root = root.expect("the workspace is there");
    let read = |path: &Path| fs::read_to_string(root.join(path)).ok();
    for (name, targets) in crates() {
        for target in targets {
            let target = target.strip_prefix(&root).expect("it is in the workspace");
            look(&name, &Modules::of(target, &read));
        }
    }
}

#[test]
fn the_files_of_a_crate_form_no_cycle() {
    let (mut seen, mut found) = (0, Vec::new());
    each_target(|name, modules| {
        let uses = modules.uses();
        let cycles = cycles(&uses);
        seen += uses.len();
        if !cycles.is_empty() {
            found.push(format!("{name}:\n{}", shown(&uses, &cycles)));
        }
    });
    assert!(seen > 400, "{seen} files are not all there are");
    assert!(found.is_empty(), "\n{}", found.concat());
}

/// The cycles of a crate with these files, each as the names of its files.
fn cycles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let files: BTreeMap<&Path, &str> =
        files.iter().map(|(path, text)| (Path::new(path), *text)).collect();
    let read = |path: &Path| files.get(path).map(|text| (*text).to_owned());
    let uses = Modules::of(Path::new("src/lib.rs"), &read).uses();
    let shown = |path: &&Path| path.display().to_string();
    cycles(&uses).iter().map(|cycle| cycle.iter().map(shown).collect()).collect()
}

#[test]
fn a_parent_that_declares_and_reexports_is_in_no_cycle() {
    let parent = "mod child; pub use child::Child; pub struct Parent;";
    let child = "use crate::Parent; pub struct Child(Parent);";
    assert!(cycles_of(&[("src/lib.rs", parent), ("src/child.rs", child)]).is_empty());
}

#[test]
fn a_parent_that_uses_what_its_child_makes_of_its_own_is_in_a_cycle() {
    let parent = "mod child; pub use child::Child; pub struct Parent; fn f(_: Child) {}";
    for child in [
        "use crate::Parent; pub struct Child(Parent);",
        "use super::*; pub struct Child(Parent);",
        "pub struct Child; fn f() { let _ = vec![(1, super::Parent)]; }",
        "pub struct Child; fn f() { use super::Parent as Other; let _ = Other; }",
    ] {
        let cycles = cycles_of(&[("src/lib.rs", parent), ("src/child.rs", child)]);
        assert_eq!(cycles, [["src/child.rs", "src/lib.rs"]], "{child}");
    }
}

#[test]
fn a_name_is_followed_through_reexports_to_the_file_that_defines_it() {
    let files = [
        ("src/lib.rs", "mod a; mod b; pub(crate) use b::deep::Deep;"),
        ("src/a.rs", "pub struct A; fn f() { crate::Deep::new() }"),
        ("src/b/mod.rs", "pub(crate) mod deep; pub struct B;"),
        ("src/b/deep.rs", "use crate::{a, b}; pub struct Deep(a::A, b::B);"),
    ];
    assert_eq!(cycles_of(&files), [["src/a.rs", "src/b/deep.rs"]]);
}

#[test]
fn cycles_of_tests_and_names_of_other_crates_do_not_count() {
    let files = [
        ("src/lib.rs", "mod a; use slab; use a::A; fn f(_: A) { slab::new() } pub struct Slab;"),
        ("src/a.rs", "pub struct A(slab::Slab); #[cfg(test)] mod tests { use crate::Slab; }"),
    ];
    assert!(cycles_of(&files).is_empty());
}
