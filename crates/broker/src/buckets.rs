//! Where buckets live: with the user's own broker, with the broker of a store, or with the machine's.
//!
//! A bucket has one lock manager, and buckets never see each other, so nothing finer has to be agreed on.
//! The settings say where it is, and clients read them before they connect:
//!
//! ```toml
//! [buckets."deploy"]
//! system = true
//! [buckets."fleet-*"]
//! store = "main"
//! [stores.main]
//! etcd = ["10.0.0.1:2379"]
//! ```

use std::{
    env, fmt,
    path::{Path, PathBuf},
};

use crate::{
    SettingsError,
    settings_file::{BucketTable, ForClients},
};

/// How long the name of a store may be. It is a part of the names of files.
const LONGEST_STORE: usize = 32;

/// Where buckets live, by the settings. What no line names lives with the user's own broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets(Vec<Line>);

/// A line of the settings that says where some buckets live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pattern: String,
    home: Home,
    file: PathBuf,
    number: usize,
}

/// The variables that name a store for all buckets of the user's own broker.
pub(crate) const OF_OWN: [&str; 2] = ["NAVLOCK_ETCD", "NAVLOCK_POSTGRES"];

/// The variable that names a store for all buckets of the user's own broker, if one is set. An empty variable counts as
/// unset.
pub fn variable_of_own() -> Option<&'static str> {
    OF_OWN.into_iter().find(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Whose broker a bucket lives with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// The user's own.
    Own,
    /// The machine's, which several users share.
    System,
    /// The user's own broker of the store of this name, which several machines share.
    Store(String),
}

impl Buckets {
    /// Where these files say that buckets live. Each has its path, its text, and what it says. What an earlier
    /// file says goes before what a later one says of the same pattern.
    ///
    /// # Errors
    ///
    /// If a line cannot be meant, names no store, or says of a bucket what another line says as well.
    pub(crate) fn of(files: Vec<(&PathBuf, &str, ForClients)>) -> Result<Self, SettingsError> {
        let mut lines: Vec<Line> = Vec::new();
        let mut stores = Vec::new();
        for (file, text, tables) in files {
            let number = |start: usize| line_number(text, start);
            for (name, table) in tables.stores {
                if !is_store(&name) {
                    let what = format!(
                        "{name:?} is no name of a store; take a-z, 0-9, _ and -, {LONGEST_STORE} at most"
                    );
                    return Err(wrong(file, number(table.span().start), "stores", what));
                }
                stores.push(name);
            }
            for (pattern, table) in tables.buckets {
                let number = number(table.span().start);
                let home = home(&pattern, table.into_inner());
                let home = home.map_err(|what| wrong(file, number, "buckets", what))?;
                if lines.iter().all(|line| line.pattern != pattern) {
                    lines.push(Line { pattern, home, file: file.clone(), number });
                }
            }
        }
        for (nth, line) in lines.iter().enumerate() {
            line.check(&lines[..nth], &stores)?;
        }
        Ok(Self(lines))
    }

    /// The line that says where this bucket lives. `None` if none does. The longest pattern wins, and a name that is
    /// written out wins over all patterns.
    pub fn line_of(&self, bucket: &str) -> Option<&Line> {
        // Of two that are equal, that of the earlier file counts.
        let fitting = self.0.iter().rev().filter(|line| line.fits(bucket));
        fitting.max_by_key(|line| (!line.pattern.contains('*'), line.pattern.len()))
    }

    /// All lines.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &Line> {
        self.0.iter()
    }

    /// Whether nothing is said of any bucket.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Line {
    /// Whose broker the buckets live with.
    pub fn home(&self) -> &Home {
        &self.home
    }

    fn fits(&self, bucket: &str) -> bool {
        match self.pattern.split_once('*') {
            None => self.pattern == bucket,
            Some((start, end)) => {
                let rest = bucket.strip_prefix(start);
                rest.is_some_and(|rest| rest.ends_with(end))
            }
        }
    }

    /// Checks that the line names a store that there is, and that no other line says as much of the same bucket.
    fn check(&self, others: &[Self], stores: &[String]) -> Result<(), SettingsError> {
        let wrong = |what| Err(wrong(&self.file, self.number, "buckets", what));
        match &self.home {
            Home::Store(store) if !stores.contains(store) => {
                return wrong(format!(
                    "{:?} is to live in the store {store:?}, which there is not; write [stores.{store}]",
                    self.pattern
                ));
            }
            _ => {}
        }
        let Some((start, end)) = self.pattern.split_once('*') else { return Ok(()) };
        let is_equal =
            |other: &&Self| other.file == self.file && other.pattern.len() == self.pattern.len();
        for other in others.iter().filter(is_equal) {
            let Some((other_start, other_end)) = other.pattern.split_once('*') else { continue };
            let starts = start.starts_with(other_start) || other_start.starts_with(start);
            let ends = end.ends_with(other_end) || other_end.ends_with(end);
            if starts && ends && self.home != other.home {
                return wrong(format!(
                    "{:?} fits some buckets that {:?} ({}, line {}) fits as well, and neither is longer; lengthen one",
                    self.pattern,
                    other.pattern,
                    other.file.display(),
                    other.number
                ));
            }
        }
        Ok(())
    }
}

/// Which line it is, for people.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pattern, file, number, .. } = self;
        write!(f, "{}, line {number}: [buckets.{pattern:?}]", file.display())
    }
}

/// Where it is, for people.
impl fmt::Display for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("on this machine, for this user"),
            Self::System => f.write_str("on this machine, for several users"),
            Self::Store(store) => write!(f, "in the store {store}"),
        }
    }
}

/// Whether a store can have this name.
pub fn is_store(name: &str) -> bool {
    let may_be =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    (1..=LONGEST_STORE).contains(&name.len()) && name.bytes().all(may_be)
}

fn home(pattern: &str, table: BucketTable) -> Result<Home, String> {
    if pattern.is_empty() || pattern.matches('*').count() > 1 {
        return Err(format!("{pattern:?} is no bucket; write its name, with one * at most"));
    }
    let store = match table {
        BucketTable { system: true, store: None } => return Ok(Home::System),
        BucketTable { system: false, store: Some(store) } => store,
        BucketTable { system: false, store: None } => return Ok(Home::Own),
        BucketTable { system: true, store: Some(_) } => {
            return Err(format!("{pattern:?} is to live in two places; leave out system or store"));
        }
    };
    if is_store(&store) {
        return Ok(Home::Store(store));
    }
    // It may be a URL, with a password.
    Err(format!(
        "{pattern:?}: store is to be the name of one; write where it is into [stores.NAME]"
    ))
}

fn line_number(text: &str, start: usize) -> usize {
    text.get(..start).unwrap_or_default().matches('\n').count() + 1
}

fn wrong(file: &Path, line: usize, key: &str, what: String) -> SettingsError {
    let key = Some(key.to_owned());
    SettingsError::Invalid { file: file.to_owned(), line: Some(line), key, what }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use crate::settings_files;

    fn of(texts: &[&str]) -> Result<Buckets, String> {
        let path = |nth: usize| PathBuf::from(format!("/{nth}.toml"));
        let paths: Vec<_> = (0..texts.len()).map(path).collect();
        let files = texts.iter().zip(&paths).map(|(text, path)| {
            let said = settings_files::parse(path, text)?;
            Ok((path, *text, said))
        });
        let files: Result<_, SettingsError> = files.collect();
        files.and_then(Buckets::of).map_err(|error| error.to_string())
    }

    fn wrong(text: &str) -> String {
        of(&[text]).unwrap_err()
    }

    const STORES: &str = "[stores.main]\netcd = [\"a:1\"]\n[stores.other]\netcd = [\"b:1\"]\n";

    #[test]
    fn the_longest_pattern_says_where_a_bucket_lives() {
        let lines = "[buckets.\"*\"]\nstore = \"main\"\n[buckets.\"a*\"]\n[buckets.\"ab*c\"]\nstore = \"other\"\n\
             [buckets.abc]\nsystem = true\n";
        let buckets = of(&[&(lines.to_owned() + STORES)]).unwrap();
        let home = |bucket: &str| buckets.line_of(bucket).map(Line::home);
        let store = |store: &str| Home::Store(store.to_owned());
        for (bucket, expected) in [
            ("", store("main")),
            ("x", store("main")),
            ("a", Home::Own),
            ("abx", Home::Own),
            ("abxc", store("other")),
            ("abc", Home::System),
        ] {
            assert_eq!(home(bucket), Some(&expected), "{bucket:?}");
        }
        // What the star stands for may be nothing, but no part is counted twice.
        assert_eq!(of(&["[buckets.\"ab*ba\"]\nsystem = true\n"]).unwrap().line_of("aba"), None);
        let line = buckets.line_of("abxc").unwrap().to_string();
        assert_eq!(line, "/0.toml, line 4: [buckets.\"ab*c\"]");
        assert!(Buckets::default().line_of("x").is_none());
    }

    #[test]
    fn the_users_file_goes_before_the_machines() {
        let buckets = of(&[
            "[buckets.a]\n[buckets.c]\nstore = \"main\"\n",
            &("[buckets.a]\nsystem = true\n[buckets.b]\nsystem = true\n".to_owned() + STORES),
        ]);
        let buckets = buckets.unwrap();
        let home = |bucket| buckets.line_of(bucket).map(Line::home);
        assert_eq!(home("a"), Some(&Home::Own));
        assert_eq!(home("b"), Some(&Home::System));
        assert_eq!(home("c"), Some(&Home::Store("main".to_owned())));
        let equal = ["[buckets.\"a*\"]\n", "[buckets.\"*b\"]\nsystem = true\n"];
        assert_eq!(of(&equal).unwrap().line_of("ab").map(Line::home), Some(&Home::Own));
    }

    #[test]
    fn what_cannot_be_meant_is_told_with_file_and_line() {
        for (text, starts, contains) in [
            ("\n[buckets.\"a*b*\"]\n", "/0.toml, line 2 (buckets): ", "one * at most"),
            ("[buckets.\"\"]\n", "/0.toml, line 1 (buckets): ", "is no bucket"),
            ("[buckets.a]\nstore = \"none\"\n", "/0.toml, line 1 (buckets): ", "[stores.none]"),
            ("[stores.\"A/b\"]\n", "/0.toml, line 1 (stores): ", "no name of a store"),
            ("[buckets.a]\nsytem = true\n", "/0.toml, line 2 (sytem): ", "no setting `sytem`"),
            ("[buckets.a]\nstore = [\"a:1\"]\n", "/0.toml, line 2 (store): ", "expected a string"),
            ("buckets = 7\n", "/0.toml, line 1 (buckets): ", "invalid type"),
        ] {
            let said = wrong(text);
            assert!(said.starts_with(starts) && said.contains(contains), "{text:?}: {said}");
        }
        let both = format!("[buckets.a]\nsystem = true\nstore = \"main\"\n{STORES}");
        assert!(wrong(&both).contains("two places"));
        let said = wrong("[buckets.a]\nstore = \"http://root:secret@a:1\"\n");
        assert!(said.contains("[stores.NAME]") && !said.contains("secret"), "{said}");
        for (text, what) in [
            ("[etcd]\nendpoints = [\"http://root:secret@a:1\"]\n", "[buckets.\"*\"]"),
            (
                "[bucket.a]\nsystem = true\n",
                "no setting `bucket`, expected one of `socket`, `delegate`, `log`, `log-names`, `buckets`, `stores`",
            ),
        ] {
            let said = wrong(text);
            assert!(said.starts_with("/0.toml, line 1") && said.contains(what), "{said}");
            assert!(!said.contains("secret"), "{said}");
        }
    }

    #[test]
    fn two_lines_that_fit_equally_are_refused_before_any_bucket_is_opened() {
        let two =
            |a: &str, b: &str| of(&[&format!("[buckets.{a:?}]\nsystem = true\n[buckets.{b:?}]\n")]);
        let said = two("a*", "*b").unwrap_err();
        assert!(
            said.contains("\"a*\"") && said.contains("\"*b\"") && said.contains("line"),
            "{said}"
        );
        assert!(two("ab*c", "a*bc").is_err());
        for (a, b) in [("a*", "b*"), ("a*", "ab*"), ("ab", "a*"), ("*ab", "*bb"), ("a*b", "a*c")] {
            assert!(two(a, b).is_ok(), "{a} {b}");
        }
        // Both say the same.
        assert!(of(&["[buckets.\"a*\"]\n[buckets.\"*b\"]\n"]).is_ok());
    }
}
