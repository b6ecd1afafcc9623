//! The cycles among the files that use each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::{Path, PathBuf},
};

use crate::uses::Uses;

/// The files that a file uses, that those use, and so on.
fn reached<'a>(uses: &'a Uses, from: &Path) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Path> = uses[from].keys().map(PathBuf::as_path).collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(uses[file].keys().map(PathBuf::as_path));
        }
    }
    reached
}

/// The files that stand in cycles. Files that reach each other stand in one set.
pub(crate) fn cycles(uses: &Uses) -> BTreeSet<BTreeSet<&Path>> {
    let reached: BTreeMap<&Path, _> =
        uses.keys().map(|file| (&**file, reached(uses, file))).collect();
    let in_cycles = reached.iter().filter(|(file, reached)| reached.contains(*file));
    let cycles = in_cycles.map(|(file, from_here)| {
        from_here.iter().copied().filter(|other| reached[other].contains(file)).collect()
    });
    cycles.collect()
}

/// The cycles as text for people: each use of one file by another one of the same cycle.
pub(crate) fn shown(uses: &Uses, cycles: &BTreeSet<BTreeSet<&Path>>) -> String {
    let mut text = String::new();
    for cycle in cycles {
        writeln!(text, "  cycle of {} files:", cycle.len()).expect("a string takes it");
        for file in cycle {
            for (used, what) in uses[*file].iter().filter(|(used, _)| cycle.contains(&***used)) {
                let what: Vec<_> = what.iter().map(String::as_str).collect();
                let (from, to, what) = (file.display(), used.display(), what.join(", "));
                writeln!(text, "    {from} uses {to}: {what}").expect("a string takes it");
            }
        }
    }
    text
}
