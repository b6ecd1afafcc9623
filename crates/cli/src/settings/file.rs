//! The file of settings: where it is, and what it may contain.

use std::path::{Path, PathBuf};

use navlock_broker::{SettingsError, SettingsFile, settings_files};
use serde::{Deserialize, Deserializer, de::Error as _};

use crate::args::values;

/// Everything that the file may contain.
pub(super) type File = SettingsFile<StoreTable>;

/// A store: the etcd or the PostgreSQL by which machines share their locks. `docs/settings.md` says what each setting
/// does.
#[cfg_attr(
    not(all(feature = "etcd", feature = "postgres")),
    allow(dead_code, reason = "it is read, so that a key that is none is said by every build")
)]
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", remote = "Self")]
pub(super) struct StoreTable {
    /// The endpoints.
    #[serde(default, deserialize_with = "endpoints")]
    pub(super) etcd: Option<Vec<String>>,
    pub(super) follow_members: Option<bool>,
    pub(super) namespace: Option<String>,
    pub(super) user: Option<String>,
    pub(super) password_file: Option<PathBuf>,
    /// In seconds.
    #[serde(default, deserialize_with = "seconds")]
    pub(super) time_to_live: Option<f64>,
    /// In seconds.
    #[serde(default, deserialize_with = "seconds")]
    pub(super) margin: Option<f64>,
    /// How often a name has to be taken before it is owned.
    pub(super) keep_names: Option<u32>,
    pub(super) certificate_authority: Option<PathBuf>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) server_name: Option<String>,
    /// The URL.
    pub(super) postgres: Option<String>,
    pub(super) listen_url: Option<String>,
    pub(super) schema: Option<String>,
}

impl<'de> Deserialize<'de> for StoreTable {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let table = Self::deserialize(from)?;
        match (&table.etcd, &table.postgres) {
            (Some(_), Some(_)) => {
                let what = "a store has etcd or postgres, and not both; leave out one";
                return Err(D::Error::custom(what));
            }
            (Some(_), None) => table.check(false).map_err(D::Error::custom)?,
            (None, Some(_)) => table.check(true).map_err(D::Error::custom)?,
            // An option may say where it is.
            (None, None) => {}
        }
        Ok(table)
    }
}

impl StoreTable {
    /// Checks that all settings are those of this kind of store.
    pub(super) fn check(&self, is_postgres: bool) -> Result<(), String> {
        let of_etcd = [
            ("follow-members", self.follow_members.is_some()),
            ("namespace", self.namespace.is_some()),
            ("user", self.user.is_some()),
            ("server-name", self.server_name.is_some()),
        ];
        let of_postgres =
            [("listen-url", self.listen_url.is_some()), ("schema", self.schema.is_some())];
        let (kind, others) =
            if is_postgres { ("PostgreSQL", &of_etcd[..]) } else { ("etcd", &of_postgres[..]) };
        let wrong = others.iter().find(|(_, is_set)| *is_set);
        wrong.map_or(Ok(()), |(key, _)| {
            Err(format!("a store on {kind} has no setting {key}; leave it out"))
        })
    }
}

/// Reads a number of seconds, or a time with units, as in `"1m30s"`.
fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "give a number of seconds, or a time, as in \"1m30s\"")]
    enum Given {
        Seconds(f64),
        Time(String),
    }

    match Given::deserialize(from)? {
        Given::Seconds(seconds) => Ok(Some(seconds)),
        Given::Time(text) => {
            let time = values::time(&text).map_err(D::Error::custom)?;
            Ok(Some(time.as_secs_f64()))
        }
    }
}

/// A list. What was given in its place is not repeated, because an endpoint may contain a password.
fn endpoints<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "the endpoints are a list, also if there is but one: [\"host:2379\"]"
    )]
    enum Given {
        List(Vec<String>),
    }

    let Given::List(all) = Given::deserialize(from)?;
    Ok(Some(all))
}

/// The settings in the file.
pub(super) fn parse(path: &Path, text: &str) -> Result<File, SettingsError> {
    settings_files::parse(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        parse(Path::new("/c.toml"), text).unwrap_err().to_string()
    }

    /// The files of settings that a page of the book shows.
    fn shown(page: &str) -> Vec<String> {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
        let text = std::fs::read_to_string(page).unwrap();
        let blocks = text.split("```toml\n").skip(1);
        blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_book_shows_files_that_are_understood_and_each_setting() {
        let [text] = &shown("broker.md")[..] else { panic!("broker.md shows one file") };
        parse(Path::new("broker.md"), text).unwrap();
        let all = shown("settings.md").concat();
        let file = parse(Path::new("settings.md"), &all).unwrap();
        let said = format!("{:?}", (&file.delegate, &file.log, &file.log_names));
        assert!(!said.contains("None"), "docs/settings.md lacks one: {said}");
        let stores = format!("{:?}", file.stores);
        for unset in format!("{:?}", StoreTable::default()).split(['{', ',', '}']) {
            let key = unset.split(':').next().unwrap().trim();
            assert!(
                stores.contains(&format!("{key}: Some")) || !unset.contains(':'),
                "{key} is not shown"
            );
        }
    }

    #[test]
    fn a_fault_is_told_with_file_line_and_key() {
        let said = wrong("[stores.main]\nendpoints = [\"a:1\"]\n");
        assert!(
            said.starts_with("/c.toml, line 2 (endpoints): there is no setting `endpoints`"),
            "{said}"
        );
        assert!(said.contains("`etcd`"), "{said}");
        let said = wrong("\n[stores.main]\netcd = []\nuser = 7\n");
        assert!(said.starts_with("/c.toml, line 4 (user): invalid type"), "{said}");
        let said = wrong("[stores\n");
        assert!(said.starts_with("/c.toml, line 1: "), "{said}");
        assert!(!said.contains('\n'), "{said}");
        let said = wrong("[stores.main]\netcd = \"http://u:secret@host:1\"\n");
        assert!(said.starts_with("/c.toml, line 2 (etcd): the endpoints are a list"), "{said}");
        assert!(said.ends_with("[\"host:2379\"]") && !said.contains("secret"), "{said}");
        assert!(wrong("etc = 1\n").contains("no setting `etc`"));
    }

    #[test]
    fn a_store_is_of_one_kind() {
        for (keys, what) in [
            ("etcd = [\"a:1\"]\npostgres = \"postgres://a/b\"", "etcd or postgres, and not both"),
            ("etcd = [\"a:1\"]\nschema = \"s\"", "etcd has no setting schema"),
            (
                "postgres = \"postgres://u:secret@a/b\"\nuser = \"u\"",
                "PostgreSQL has no setting user",
            ),
        ] {
            let said = wrong(&format!("\n[stores.main]\n{keys}\n"));
            assert!(said.starts_with("/c.toml, line 2") && said.contains(what), "{said}");
            assert!(!said.contains("secret"), "{said}");
        }
    }

    #[test]
    fn a_value_in_a_wrong_place_is_not_repeated() {
        let said = wrong("[stores.main]\npassword = \"secret\"\n");
        assert!(said.contains("password") && !said.contains("secret"), "{said}");
    }

    #[test]
    fn a_time_is_in_seconds_or_has_units() {
        for (text, seconds) in [("10", 10.0), ("7.5", 7.5), ("\"1m30s\"", 90.0)] {
            let file = parse(Path::new("c"), &format!("[stores.main]\ntime-to-live = {text}\n"));
            assert_eq!(file.unwrap().stores["main"].get_ref().time_to_live, Some(seconds));
        }
    }

    #[test]
    fn whether_names_can_be_owned_is_true_or_false() {
        let read = |text: &str| parse(Path::new("c"), text).unwrap().delegate;
        let both = parse(Path::new("c"), "log = \"warn\"\nlog-names = true\n").unwrap();
        assert_eq!((both.log.as_deref(), both.log_names), (Some("warn"), Some(true)));
        assert_eq!(read("delegate = false\n"), Some(false));
        assert_eq!(read(""), None);
        let said = wrong("delegate = \"off\"\n");
        assert!(said.starts_with("/c.toml, line 1 (delegate): invalid type"), "{said}");
    }

    #[test]
    fn a_file_that_was_chosen_has_to_be_there() {
        let directory = tempfile::tempdir().unwrap();
        let none = settings_files::all(Some(&directory.path().join("none"))).unwrap_err();
        assert!(matches!(none, SettingsError::Unreadable(..)), "{none}");
        let empty = directory.path().join("empty");
        std::fs::write(&empty, "").unwrap();
        assert!(settings_files::all(Some(&empty)).unwrap()[0].1.is_empty());
    }
}
