//! CONFORMANCE.md and the crates' `rules.toml` say the same: each way to break a rule has its row, and each
//! row names ways and tests that exist.

mod repository;

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use self::repository::{files, read, root};

/// The ids of the entries of all crates, and the last argument of each one's test.
fn rules() -> Vec<(String, String)> {
    let crates = fs::read_dir(root().join("crates")).expect("the folder of crates can be read");
    let paths = crates.map(|folder| folder.expect("it can be read").path().join("rules.toml"));
    let text = |rule: &toml::Value, key| {
        rule.get(key)
            .and_then(toml::Value::as_str)
            .expect("an entry has its id and test")
            .to_owned()
    };
    let of_file = |path: PathBuf| {
        let rules = fs::read_to_string(&path).expect("it can be read");
        let rules: toml::Table = rules.parse().expect("rules.toml is TOML");
        let rules = rules["rule"].as_array().expect("there are entries");
        rules.iter().map(|rule| (text(rule, "id"), text(rule, "test"))).collect::<Vec<_>>()
    };
    paths.filter(|path| path.exists()).flat_map(of_file).collect()
}

/// The pieces of a text that stand between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The last two cells of each row of the tables that name tests: "shown by" and "broken".
fn rows(text: &str) -> Vec<(&str, &str)> {
    let (_, tables) = text.split_once("| broken |").expect("there is a table with ways to break");
    let (tables, _) = tables.split_once("## JavaScript").expect("that of scripts comes after it");
    tables
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| {
            let mut cells = line.trim_end_matches('|').rsplit('|').map(str::trim);
            let broken = cells.next().unwrap_or_default();
            (cells.next().unwrap_or_default(), broken)
        })
        .collect()
}

/// All words of the sources. The names of tests are among them, whether they name a function or are given to
/// a macro.
fn words() -> HashSet<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = HashSet::new();
    for file in files(&[".rs"]).iter().filter(|file| *file != "xtask/tests/conformance.rs") {
        words.extend(read(file).split(|c| !is_part(c)).map(str::to_owned));
    }
    words
}

#[test]
fn every_way_to_break_a_rule_has_its_row_and_every_row_a_way_that_there_is() {
    let (conformance, rules) = (read("CONFORMANCE.md"), rules());
    let rows = rows(&conformance);
    let named: HashSet<&str> = rows.iter().flat_map(|(_, broken)| quoted(broken)).collect();
    let known: HashSet<&str> = rules.iter().map(|(id, _)| &**id).collect();
    assert_eq!(known.len(), rules.len(), "an id stands twice in the crates' rules.toml");
    let mut without_row: Vec<_> = known.difference(&named).collect();
    let mut without_rule: Vec<_> = named.difference(&known).filter(|id| **id != "broken").collect();
    without_row.sort();
    without_rule.sort();
    assert!(without_row.is_empty(), "no row of CONFORMANCE.md names {without_row:?}");
    assert!(without_rule.is_empty(), "no entry of a crate's rules.toml is {without_rule:?}");
}

#[test]
fn every_test_that_is_named_is_there() {
    let words = words();
    let conformance = read("CONFORMANCE.md");
    let is_file = |name: &str| name.contains('/') || name.contains('.');
    let in_rows = rows(&conformance);
    let in_rows = in_rows.iter().flat_map(|(shown_by, _)| quoted(shown_by));
    for name in in_rows.filter(|name| !is_file(name)) {
        let test = name.trim_end_matches("::*").rsplit("::").next().unwrap_or(name);
        // A row may name several tests by their common beginning and a `*`.
        let there = match test.strip_suffix('*') {
            Some(beginning) => words.iter().any(|word| word.starts_with(beginning)),
            None => words.contains(test),
        };
        assert!(there, "CONFORMANCE.md: there is no test {name}");
    }
    // The last part of a filter is a test's name, or the beginning of one.
    for (id, test) in rules() {
        let filter = test.split_whitespace().last().unwrap_or_default();
        let beginning = filter.rsplit("::").next().unwrap_or(filter);
        let there = words.iter().any(|word| word.starts_with(beginning));
        assert!(there, "rules.toml: {id}: no test begins with {filter}");
    }
}

#[test]
fn every_file_that_is_named_is_there() {
    const SOURCES: [&str; 4] = [".rs", ".js", ".cjs", ".mjs"];
    let (conformance, sources) = (read("CONFORMANCE.md"), files(&SOURCES));
    let is_file = |name: &&str| {
        SOURCES.iter().any(|end| name.ends_with(end))
            && name.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c))
    };
    let named: HashSet<&str> = quoted(&conformance).filter(is_file).collect();
    assert!(named.len() > 100, "{named:?}");
    let is_there = |name: &&&str| sources.iter().any(|file| Path::new(file).ends_with(name));
    let gone: Vec<_> = named.iter().filter(|name| !is_there(name)).collect();
    assert!(gone.is_empty(), "CONFORMANCE.md names files that are not there: {gone:?}");
}
