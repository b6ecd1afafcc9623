//! The settings of a broker beside its place: where its store is, if it is that of one, whether its clients can
//! own names, and what it logs.
//!
//! The first client starts the broker for all clients, so the broker's settings must not depend on
//! which client that is. They are in a file, and its path follows from the uid, like the broker's
//! place. The environment overrides the file, for containers and tests. An option, for those who
//! start brokers themselves, overrides both.

#[cfg(any(feature = "etcd", feature = "postgres"))]
mod credential_files;
mod endpoints;
mod error;
mod etcd;
#[cfg(feature = "etcd")]
mod etcd_options;
mod file;
mod given;
#[cfg(any(feature = "etcd", feature = "postgres"))]
mod named_file;
mod postgres;
#[cfg(any(feature = "etcd", feature = "postgres"))]
mod shared;
mod store;
mod unable;

use std::{env, ffi::OsStr, path::PathBuf};

use navlock::Refusal;
use navlock_broker::settings_files;

pub(crate) use navlock_broker::settings_files::state_directory;

#[cfg(feature = "etcd")]
pub(crate) use self::etcd::Etcd;
use self::given::Given;
#[cfg(feature = "postgres")]
pub(crate) use self::postgres::Postgres;
pub(crate) use self::store::{Store, kind_at};
use crate::{args::SettingsArgs, log::Filter};

/// The variable in which a client that starts a broker says who it is.
pub(crate) const STARTED_BY: &str = "NAVLOCK_STARTED_BY";

/// The settings that result from the options, the environment and the file.
// There is no `Debug`, because the settings contain a password.
pub(crate) struct Settings {
    /// The files that were read: the user's before the machine's.
    pub(crate) files: Vec<PathBuf>,
    /// By what machines share the locks; `None` if the broker keeps them itself.
    pub(crate) store: Option<Store>,
    /// Whether clients can own names, if the broker keeps the locks itself.
    pub(crate) delegate: bool,
    /// What the broker logs.
    pub(crate) log: Filter,
    /// Whether names of locks are logged even above the level debug.
    pub(crate) log_names: bool,
}

/// The variable that says whether clients can own names.
pub(crate) const DELEGATE: &str = "NAVLOCK_DELEGATE";

/// The variable that says what brokers log.
pub(crate) const LOG: &str = "NAVLOCK_LOG";

/// The variable that says whether brokers log names at every level.
pub(crate) const LOG_NAMES: &str = "NAVLOCK_LOG_NAMES";

/// The value of a variable that is 0 or 1. An empty variable counts as unset.
///
/// # Errors
///
/// What is wrong with the text.
pub(crate) fn zero_or_one(variable: &str, text: &str) -> Result<Option<bool>, Refusal> {
    match text {
        "" => Ok(None),
        "0" => Ok(Some(false)),
        "1" => Ok(Some(true)),
        _ => {
            let what = format!("{text:?} cannot be used; set the variable to 0 or 1, or unset it");
            Err(error::of_value(variable, what))
        }
    }
}

/// The filter in the text of [`LOG`].
///
/// # Errors
///
/// What is wrong with the text.
pub(crate) fn log(text: &str) -> Result<Option<Filter>, Refusal> {
    let filter = Some(text).filter(|text| !text.is_empty()).map(str::parse::<Filter>).transpose();
    filter.map_err(|wrong| error::of_value(LOG, format!("{wrong}; or unset it")))
}

impl Settings {
    /// Loads the settings that result from the options, the environment and the files, of the broker of this store
    /// or of the user's own. What the user's file says goes before what the machine's says.
    ///
    /// # Errors
    ///
    /// What is wrong, with what, and what to do. This is an error, because a broker that went on
    /// without its store would grant what another machine holds.
    pub(crate) fn load(args: &SettingsArgs, store: Option<&str>) -> Result<Self, Refusal> {
        let text = |name| env::var_os(name).unwrap_or_default().to_string_lossy().into_owned();
        let zero_or_one = |name| zero_or_one(name, &text(name));
        let (delegate, log_names) = (zero_or_one(DELEGATE)?, zero_or_one(LOG_NAMES)?);
        let chosen_log = log(&text(LOG))?;
        let chosen = chosen_file(args)?;
        let texts = settings_files::all(chosen.as_deref())?;
        // What clients find wrong is told by brokers as well.
        settings_files::check(&texts)?;
        let mut found = Vec::new();
        for (path, text) in texts {
            let file = file::parse(&path, &text)?;
            found.push((path, file));
        }
        let said_log = found.iter().find_map(|(path, file)| Some((path, file.log.as_ref()?)));
        let log = match (chosen_log, said_log) {
            (Some(chosen), _) => chosen,
            (None, Some((path, text))) => {
                let wrong = |what| error::of_value(path.display(), format!("log: {what}"));
                text.parse().map_err(wrong)?
            }
            _ => Filter::default(),
        };
        let delegate = delegate.or_else(|| found.iter().find_map(|(_, file)| file.delegate));
        let log_names = log_names.or_else(|| found.iter().find_map(|(_, file)| file.log_names));
        let files: Vec<_> = found.iter().map(|(path, _)| path.clone()).collect();
        Ok(Self {
            store: self::store(args, store, found)?,
            files,
            delegate: delegate.unwrap_or(true),
            log,
            log_names: log_names.unwrap_or(false),
        })
    }
}

/// The store of this name, or the one that was given for what no store has. What an option says goes before what the
/// store says. The variables are for the user's own broker alone.
fn store(
    args: &SettingsArgs,
    store: Option<&str>,
    found: Vec<(PathBuf, file::File)>,
) -> Result<Option<Store>, Refusal> {
    let given = Given::of(args, store.is_none())?;
    let Some(store) = store else {
        let table = file::StoreTable::default();
        return given.map(|given| Store::new(Some(&given), &table, None)).transpose();
    };
    let mut found = found.into_iter();
    let table =
        found.find_map(|(path, mut file)| Some((path, file.stores.remove(store)?.into_inner())));
    let Some((path, table)) = table else {
        let what = format!(
            "the settings have no store {store:?}; write [stores.{store}] into one of their files"
        );
        return Err(Refusal::new(what));
    };
    Store::new(given.as_ref(), &table, Some((&path, store))).map(Some)
}

/// The file that an option or a variable chooses. A path in an option may be relative, but not one in the
/// variable.
fn chosen_file(args: &SettingsArgs) -> Result<Option<PathBuf>, Refusal> {
    let chosen = args.config.as_deref().filter(|path| !path.as_os_str().is_empty());
    // The parser of arguments does not say which of the two the path comes from.
    let variable = env::var_os(settings_files::CONFIG);
    if chosen.map(AsRef::<OsStr>::as_ref) == variable.as_deref() {
        return Ok(settings_files::chosen()?);
    }
    Ok(chosen.map(ToOwned::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_says_yes_or_no_or_nothing() {
        for (text, says) in [("", None), ("0", Some(false)), ("1", Some(true))] {
            assert_eq!(zero_or_one(DELEGATE, text).unwrap(), says, "{text:?}");
        }
        for wrong in ["off", "2", " 0", "\u{fffd}"] {
            let said = zero_or_one(DELEGATE, wrong).unwrap_err().to_string();
            assert!(said.starts_with(DELEGATE) && said.contains("0 or 1"), "{wrong:?}");
        }
    }

    #[test]
    fn a_wrong_level_is_told_of_the_variable() {
        assert!(log("").unwrap().is_none());
        assert_eq!(log("debug").unwrap().unwrap().to_string(), "debug");
        let said = log("loud").unwrap_err().to_string();
        assert!(said.starts_with("NAVLOCK_LOG: \"loud\" is no level"), "{said}");
    }

    /// The error of settings with this table for a store, if these options are given.
    fn wrong_store(table: &str, etcd: Option<&str>, postgres: Option<&str>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        std::fs::write(&file, format!("[stores.db]\n{table}\n")).unwrap();
        let [etcd, postgres] = [etcd, postgres].map(|given| given.map(str::to_owned));
        let args = SettingsArgs { etcd, postgres, config: Some(file) };
        Settings::load(&args, Some("db")).err().expect("it is refused").to_string()
    }

    #[test]
    fn what_is_meant_for_another_kind_of_store_is_refused_also_if_an_option_names_the_store() {
        let (etcd, postgres) = (Some("a:1"), Some("postgres://a/b"));
        for (table, etcd, postgres, contains) in [
            (
                "namespace = \"ours\"",
                None,
                postgres,
                "[stores.db]: a store on PostgreSQL has no setting namespace",
            ),
            ("schema = \"ours\"", etcd, None, "[stores.db]: a store on etcd has no setting schema"),
            ("etcd = [\"a:1\"]", None, postgres, "another kind"),
            ("", etcd, postgres, "name two stores"),
        ] {
            let said = wrong_store(table, etcd, postgres);
            assert!(said.contains(contains), "{said}");
        }
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_file_that_others_read_has_no_password_in_a_url() {
        let said = wrong_store("postgres = \"postgres://ada:s3cret@a/b\"", None, None);
        assert!(said.contains("password-file") && !said.contains("s3cret"), "{said}");
    }
}
