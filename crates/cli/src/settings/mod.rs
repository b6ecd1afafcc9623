//! The settings of a broker beside its place: its etcd, if it has one, whether its clients can own
//! names, and what it logs.
//!
//! The first client starts the broker for all clients, so the broker's settings must not depend on
//! which client that is. They are in a file, and its path follows from the uid, like the broker's
//! place. The environment overrides the file, for containers and tests. An option, for those who
//! start brokers themselves, overrides both.

mod etcd;
mod file;
mod secret;

use std::{
    env,
    path::{Path, PathBuf},
};

use navlock_platform::user;

pub(crate) use self::etcd::Etcd;
#[cfg(feature = "etcd")]
pub(crate) use self::etcd::{Cluster, Secrets};
use crate::{args::SettingsArgs, log::Filter};

/// The variable in which a client that starts a broker says who it is.
pub(crate) const STARTED_BY: &str = "NAVLOCK_STARTED_BY";

/// The settings that result from the options, the environment and the file.
// There is no `Debug`, because the settings contain a password.
pub(crate) struct Settings {
    /// The file that was read, if there is one.
    pub(crate) file: Option<PathBuf>,
    /// The etcd; `None` if the broker keeps the locks itself.
    pub(crate) etcd: Option<Etcd>,
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
pub(crate) fn zero_or_one(variable: &str, text: &str) -> Result<Option<bool>, String> {
    match text {
        "" => Ok(None),
        "0" => Ok(Some(false)),
        "1" => Ok(Some(true)),
        _ => Err(format!("{variable} is {text:?}; set it to 0 or 1, or unset it")),
    }
}

/// The filter in the text of [`LOG`].
///
/// # Errors
///
/// What is wrong with the text.
pub(crate) fn log(text: &str) -> Result<Option<Filter>, String> {
    let filter = Some(text).filter(|text| !text.is_empty()).map(str::parse).transpose();
    filter.map_err(|wrong| format!("{LOG}: {wrong}; or unset it"))
}

/// A directory of the user that outlives `/tmp`, for the files that brokers keep. It is the directory
/// in `NAVLOCK_STATE`, for containers and tests, or else one that follows from the uid, like the
/// settings. `None` for a user without a home.
pub(crate) fn state_directory() -> Option<PathBuf> {
    match env::var_os("NAVLOCK_STATE").filter(|path| !path.is_empty()) {
        Some(chosen) => Some(PathBuf::from(chosen)).filter(|path| path.is_absolute()),
        None => user::state_directory("navlock"),
    }
}

impl Settings {
    /// Loads the settings that result from the options, the environment and the file.
    ///
    /// # Errors
    ///
    /// What is wrong, with what, and what to do. This is an error, because a broker that went on
    /// without its etcd would grant what another machine holds.
    pub(crate) fn load(args: &SettingsArgs) -> Result<Self, String> {
        // `--config` and `--etcd` may come from variables, and an empty variable counts as unset.
        let chosen = args.config.as_deref().filter(|path| !path.as_os_str().is_empty());
        let is_variable = chosen.map(Path::as_os_str) == env::var_os("NAVLOCK_CONFIG").as_deref();
        if let Some(path) = chosen.filter(|path| path.is_relative() && is_variable) {
            return Err(format!(
                "NAVLOCK_CONFIG is {}, and brokers are started in another folder; \
                 set it to an absolute path",
                path.display()
            ));
        }
        let found = file::find(chosen)?;
        let (file, found) = match found {
            Some((path, text)) => {
                let found = file::parse(&path, &text)?;
                (Some(path), found)
            }
            None => (None, file::File::default()),
        };
        let chosen = |name| env::var_os(name).unwrap_or_default().to_string_lossy().into_owned();
        let yes_or_no = |name| zero_or_one(name, &chosen(name));
        let delegate = yes_or_no(DELEGATE)?.or(found.delegate).unwrap_or(true);
        let log_names = yes_or_no(LOG_NAMES)?.or(found.log_names).unwrap_or(false);
        let log = match (log(&chosen(LOG))?, found.log.as_deref(), &file) {
            (Some(chosen), ..) => chosen,
            (None, Some(found), Some(file)) => {
                found.parse().map_err(|wrong| format!("{}: log: {wrong}", file.display()))?
            }
            _ => Filter::default(),
        };
        let table = found.etcd;
        let given = args.etcd.as_deref().filter(|text| !text.is_empty());
        let etcd = match (given, table) {
            (None, None) => None,
            (given, table) => Some(Etcd::new(given, table.unwrap_or_default(), file.as_deref())?),
        };
        Ok(Self { file, etcd, delegate, log, log_names })
    }

    /// The paths at which this looks for the file, if none was chosen.
    pub(crate) fn places() -> Vec<PathBuf> {
        navlock_broker::settings_files::places()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_says_yes_or_no_or_nothing() {
        for (text, says) in [("", None), ("0", Some(false)), ("1", Some(true))] {
            assert_eq!(zero_or_one(DELEGATE, text), Ok(says), "{text:?}");
        }
        for wrong in ["off", "2", " 0", "\u{fffd}"] {
            let said = zero_or_one(DELEGATE, wrong).unwrap_err();
            assert!(said.starts_with(DELEGATE) && said.contains("0 or 1"), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_no_level_is_said_of_the_variable() {
        assert_eq!(log(""), Ok(None));
        assert_eq!(log("debug").unwrap().unwrap().to_string(), "debug");
        assert!(log("loud").unwrap_err().starts_with("NAVLOCK_LOG: \"loud\" is no level"));
    }
}
