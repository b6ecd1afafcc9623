//! CONTRIBUTING.md names only files and functions that exist.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn contributing() -> String {
    fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md can be read")
}

/// The pieces between backquotes in a text that has no code blocks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether a piece is meant as a path of the repository. A command has spaces, and a path of the system
/// begins with a slash.
fn is_path(token: &str) -> bool {
    let is_document = Path::new(token).extension().is_some_and(|extension| extension == "md");
    (is_document || token.contains('/'))
        && !token.starts_with('/')
        && !token.contains([' ', ':', '@'])
}

/// Whether a piece is meant as the name of something in a file: `name`, `Type::name`, or `#name` of
/// JavaScript.
fn is_name(token: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '#');
    !token.is_empty() && token.chars().all(is_part)
}

/// Whether there is something at this path. A `*` stands for any one folder.
fn exists(path: &str) -> bool {
    let Some((folder, rest)) = path.split_once("/*/") else { return root().join(path).exists() };
    let entries =
        fs::read_dir(root().join(folder)).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = entries.unwrap_or_default().into_iter();
    entries.any(|entry| entry.path().join(rest).exists())
}

/// The words that stand before a name where the name is defined, in Rust or in JavaScript.
const DEFINED_BY: [&str; 10] =
    ["fn", "struct", "enum", "trait", "const", "type", "mod", "macro_rules!", "function", "class"];

/// Whether a file defines this name. Methods of JavaScript, and functions of the addon, which a macro
/// defines, stand at the beginning of their line.
fn defines(text: &str, name: &str) -> bool {
    let (of, name) = name.rsplit_once("::").unwrap_or(("", name));
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let is_method =
        |rest: &str| rest.starts_with('(') && rest.ends_with('{') || rest.starts_with('[');
    let defines = |line: &str| {
        let line = line.trim();
        let words: Vec<_> = line.split_whitespace().collect();
        let follows = |pair: &[&str]| {
            DEFINED_BY.contains(&pair[0]) && pair[1].strip_prefix(name).is_some_and(is_end)
        };
        let method = line.strip_prefix("async ").unwrap_or(line).strip_prefix(name);
        words.windows(2).any(follows) || method.is_some_and(is_method)
    };
    text.contains(of) && text.lines().any(defines)
}

/// The errors in the last column of the tables: paths at which there is nothing, and names that the file
/// before them does not define.
fn complaints(text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for row in text.lines().filter(|line| line.starts_with("| ")) {
        let cell = row.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap_or_default();
        let mut file = None;
        for token in quoted(cell) {
            if is_path(token) {
                file = Some(token);
                if !exists(token) {
                    complaints.push(format!("nothing is at {token}"));
                }
            } else if is_name(token) {
                let Some(file) = file else {
                    complaints.push(format!("no file stands before {token} in: {row}"));
                    continue;
                };
                let source = fs::read_to_string(root().join(file)).unwrap_or_default();
                if !defines(&source, token) {
                    complaints.push(format!("{file} does not define {token}"));
                }
            }
        }
    }
    complaints
}

#[test]
fn every_path_in_contributing_leads_somewhere() {
    let text = contributing();
    let mut in_code = false;
    let prose = text.lines().filter(|line| {
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    });
    let missing: Vec<_> =
        prose.flat_map(quoted).filter(|token| is_path(token) && !exists(token)).collect();
    assert!(missing.is_empty(), "CONTRIBUTING.md names what is not there: {missing:?}");
}

#[test]
fn every_function_in_the_walks_of_contributing_stands_in_its_file() {
    let text = contributing();
    let (_, walks) = text.split_once("\n## The path of a request\n").expect("the walks are there");
    let (walks, _) = walks.split_once("\n## What decides\n").expect("they end");
    let rows = walks.lines().filter(|line| line.starts_with("| ") && line.contains(".rs`: `"));
    assert!(rows.count() > 30, "the walks are tables of files and functions");
    let complaints = complaints(walks);
    assert!(complaints.is_empty(), "CONTRIBUTING.md: {complaints:#?}");
}

#[test]
fn a_wrong_path_and_a_wrong_function_are_noticed() {
    let wrong = "\
| what happens | where |
|---|---|
| right | `crates/engine/src/algorithms/abort.rs`: `abort_request`, `LockManager::abort` |
| right | `npm/navlock/js/realm.cjs`: `#wake`, `release`; `npm/navlock/src/functions.rs`: `request` |
| called, and not defined | `crates/engine/src/algorithms/abort.rs`: `process_lock_request_queue` |
| the beginning of a name | `crates/engine/src/algorithms/abort.rs`: `abort_req` |
| another type | `crates/engine/src/algorithms/abort.rs`: `Keeper::abort` |
| called, and not defined | `npm/navlock/js/requests.cjs`: `createLock` |
| gone | `crates/engine/src/gone.rs`, `crates/*/gone.rs` |
| no file | `abort` |
";
    assert_eq!(
        complaints(wrong),
        [
            "crates/engine/src/algorithms/abort.rs does not define process_lock_request_queue",
            "crates/engine/src/algorithms/abort.rs does not define abort_req",
            "crates/engine/src/algorithms/abort.rs does not define Keeper::abort",
            "npm/navlock/js/requests.cjs does not define createLock",
            "nothing is at crates/engine/src/gone.rs",
            "nothing is at crates/*/gone.rs",
            "no file stands before abort in: | no file | `abort` |",
        ]
    );
}
