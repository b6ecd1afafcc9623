//! The entries of all `crates/*/rules.toml`, and which of them are wanted.

use std::{
    fs, io,
    path::{Path, PathBuf},
    str::FromStr,
};

use serde::Deserialize;

use crate::run::Result;

#[derive(Deserialize)]
struct Rules {
    rule: Vec<Rule>,
}

/// One way to break one rule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Rule {
    /// The entry's name, here and on the command line.
    pub(super) id: String,
    /// The rules of SEMANTICS that it breaks, as CONFORMANCE.md numbers them.
    pub(super) breaks: String,
    /// The file with the code. In `rules.toml` it is relative to the crate; [`read`] makes it relative to the
    /// checkout.
    pub(super) file: PathBuf,
    /// The code, which must stand in the file once.
    pub(super) find: String,
    /// The code that takes its place.
    pub(super) replace: String,
    /// The arguments of `cargo test` for the tests that must fail, or `browser` and their names for
    /// `cargo xtask browser`.
    pub(super) test: String,
}

/// What `cargo test` builds: its arguments without the test's name. The name is the last argument, if this is
/// neither an option nor the value of an option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target(String);

impl Rule {
    pub(super) fn target(&self) -> Target {
        let words: Vec<&str> = self.test.split_whitespace().collect();
        let is_of_an_option = |word: &str| word.starts_with('-') && word != "--lib";
        let built = match words[..] {
            [.., before, last] if !last.starts_with('-') && !is_of_an_option(before) => {
                &words[..words.len() - 1]
            }
            _ => &words[..],
        };
        Target(built.join(" "))
    }
}

/// All entries of the checkout, crate by crate. Their files are relative to the checkout.
pub(super) fn read(root: &Path) -> Result<Vec<Rule>> {
    let crates = root.join("crates");
    let failed =
        |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let folders = fs::read_dir(&crates).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut folders: Vec<_> = folders
        .map_err(|error| failed(&crates, &error))?
        .into_iter()
        .filter(|folder| folder.path().join("rules.toml").exists())
        .map(|folder| folder.file_name())
        .collect();
    folders.sort();
    let mut all = Vec::new();
    for folder in folders {
        let path = crates.join(&folder).join("rules.toml");
        let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
        let rules: Rules = toml::from_str(&text).map_err(|error| failed(&path, &error))?;
        let of_crate = |rule: Rule| {
            let file = Path::new("crates").join(&folder).join(&rule.file);
            Rule { file, ..rule }
        };
        all.extend(rules.rule.into_iter().map(of_crate));
    }
    Ok(all)
}

/// One part of the entries whose ids begin with one of `ids`, or of all entries if there are no `ids`.
pub(super) fn select(rules: &[Rule], ids: &[&str], shard: Shard) -> Result<Vec<Rule>> {
    if let Some(id) = ids.iter().find(|id| !rules.iter().any(|rule| rule.id.starts_with(**id))) {
        return Err(format!("no entry of a crate's rules.toml has an id that begins with {id}"));
    }
    let wanted = |rule: &&Rule| ids.is_empty() || ids.iter().any(|id| rule.id.starts_with(id));
    let mut rules: Vec<Rule> = rules.iter().filter(wanted).cloned().collect();
    // Entries that build the same are neighbours, so that few parts have to build the same.
    rules.sort_by_key(|rule| (rule.target(), rule.file.clone()));
    let (start, end) = shard.of(rules.len());
    if start == end {
        return Err("there is no entry in this part".to_owned());
    }
    Ok(rules.drain(start..end).collect())
}

/// One part of several that together are all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    /// From 1 on.
    nth: usize,
    of: usize,
}

impl Shard {
    pub(super) const ALL: Self = Self { nth: 1, of: 1 };

    /// Where this part begins and ends among `count` entries.
    fn of(self, count: usize) -> (usize, usize) {
        let bound = |nth| count * nth / self.of;
        (bound(self.nth - 1), bound(self.nth))
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text
            .split_once('/')
            .and_then(|(nth, of)| Some(Self { nth: nth.parse().ok()?, of: of.parse().ok()? }));
        parts
            .filter(|shard| (1..=shard.of).contains(&shard.nth))
            .ok_or_else(|| format!("--shard {text}: not of the form I/N, such as 1/2"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::run::root;

    pub(in crate::break_rules) fn rule(id: &str) -> Rule {
        Rule {
            id: id.to_owned(),
            breaks: "1".to_owned(),
            file: PathBuf::from("a.rs"),
            find: "a".to_owned(),
            replace: "b".to_owned(),
            test: "-p a --lib a".to_owned(),
        }
    }

    #[test]
    fn the_tests_name_is_no_part_of_what_is_built() {
        let of = |test: &str| Rule { test: test.to_owned(), ..rule("a") }.target().0;
        assert_eq!(of("-p core --test suite queue::a"), "-p core --test suite");
        assert_eq!(of("-p core --test suite"), "-p core --test suite");
        assert_eq!(of("-p etcd --lib model::a"), "-p etcd --lib");
        assert_eq!(of("-p etcd --lib"), "-p etcd --lib");
        assert_eq!(of("browser queue::a"), "browser");
    }

    #[test]
    fn the_parts_together_are_all() {
        let rules: Vec<Rule> = ["a", "b", "c", "d", "e"].map(rule).into();
        let mut ids = Vec::new();
        for shard in ["1/3", "2/3", "3/3"] {
            let part = select(&rules, &[], shard.parse().unwrap()).unwrap();
            assert!(!part.is_empty());
            ids.extend(part.into_iter().map(|rule| rule.id));
        }
        assert_eq!(ids, ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn ids_are_chosen_by_their_beginning() {
        let rules = ["etcd-a", "broker-a", "etcd-b"].map(rule);
        let ids = |wanted: &[&str]| {
            let chosen = select(&rules, wanted, Shard::ALL).unwrap();
            chosen.into_iter().map(|rule| rule.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(&["etcd"]), ["etcd-a", "etcd-b"]);
        assert_eq!(ids(&["broker-a", "etcd-b"]), ["broker-a", "etcd-b"]);
        assert!(select(&rules, &["node"], Shard::ALL).is_err());
    }

    #[test]
    fn each_entry_has_an_id_of_its_own_and_its_code_stands_once_where_it_says() {
        let mut seen = std::collections::HashSet::new();
        for rule in read(&root()).unwrap() {
            let code = fs::read_to_string(root().join(&rule.file)).unwrap_or_default();
            let file = rule.file.display();
            assert_eq!(code.matches(&rule.find).count(), 1, "{}: `find` in {file}", rule.id);
            assert!(seen.insert(rule.id.clone()), "{}: there are two", rule.id);
        }
    }
}
