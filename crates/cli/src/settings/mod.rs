//! What a broker is told beside its place: on which etcd it is, if it is on one, and whether its clients
//! can own names.
//!
//! Whoever comes first starts the broker of all, so its settings must not depend on who that is: they
//! stand in a file, which follows from the uid as the broker's place does. What is in the environment
//! goes before it, for containers and tests; an option, for those who start brokers themselves,
//! before both.

mod etcd;
mod file;
mod secret;

use std::{
    env,
    path::{Path, PathBuf},
};

use rustix::process::geteuid;

pub(crate) use self::etcd::Etcd;
#[cfg(feature = "etcd")]
pub(crate) use self::etcd::Secrets;
use crate::args::SettingsArgs;

/// What was found.
// Not to be printed: there is a password in it.
pub(crate) struct Settings {
    /// The file that was read, if there is one.
    pub(crate) file: Option<PathBuf>,
    /// `None` where the broker keeps the locks itself.
    pub(crate) etcd: Option<Etcd>,
    /// Whether clients can own names, where the broker keeps the locks itself.
    pub(crate) delegate: bool,
}

/// The variable that says so.
const DELEGATE: &str = "NAVLOCK_DELEGATE";

/// What a value of [`DELEGATE`] says. As for any variable, to be empty is to be unset.
///
/// # Errors
///
/// What is wrong with it.
pub(crate) fn delegate(text: &str) -> Result<Option<bool>, String> {
    match text {
        "" => Ok(None),
        "0" => Ok(Some(false)),
        "1" => Ok(Some(true)),
        _ => Err(format!("{DELEGATE} is {text:?}; set it to 0 or 1, or unset it")),
    }
}

/// A directory of the user's that outlives `/tmp`, for what brokers keep: that of `NAVLOCK_STATE`, for
/// containers and tests, else one that follows from the uid as the settings do. `None` for a user
/// without a home.
pub(crate) fn state_directory() -> Option<PathBuf> {
    match env::var_os("NAVLOCK_STATE").filter(|path| !path.is_empty()) {
        Some(chosen) => Some(PathBuf::from(chosen)).filter(|path| path.is_absolute()),
        None if geteuid().is_root() => Some("/var/lib/navlock".into()),
        None => {
            let home = navlock_broker::settings::home().filter(|home| home.is_dir());
            home.map(|home| home.join(".local/state/navlock"))
        }
    }
}

impl Settings {
    /// What the options, the environment and the file say together.
    ///
    /// # Errors
    ///
    /// What is wrong, with what, and what to do: a broker that went on without its etcd would grant
    /// what another machine holds.
    pub(crate) fn load(args: &SettingsArgs) -> Result<Self, String> {
        // Both may come from a variable, for which to be empty is to be unset.
        let chosen = args.config.as_deref().filter(|path| !path.as_os_str().is_empty());
        let is_variable = chosen.map(Path::as_os_str) == env::var_os("NAVLOCK_CONFIG").as_deref();
        if let Some(path) = chosen.filter(|path| path.is_relative() && is_variable) {
            return Err(format!(
                "NAVLOCK_CONFIG is {}, and brokers are started in another folder; \
                 set it to a path that begins with a /",
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
        let chosen = env::var_os(DELEGATE).unwrap_or_default();
        let delegate = delegate(&chosen.to_string_lossy())?.or(found.delegate).unwrap_or(true);
        let table = found.etcd;
        let given = args.etcd.as_deref().filter(|text| !text.is_empty());
        let etcd = match (given, table) {
            (None, None) => None,
            (given, table) => Some(Etcd::new(given, table.unwrap_or_default(), file.as_deref())?),
        };
        Ok(Self { file, etcd, delegate })
    }

    /// Where a file is looked for if none was chosen.
    pub(crate) fn places() -> Vec<PathBuf> {
        navlock_broker::settings::places()
    }
}

#[cfg(test)]
mod tests {
    use super::delegate;

    #[test]
    fn the_variable_says_yes_or_no_or_nothing() {
        for (text, says) in [("", None), ("0", Some(false)), ("1", Some(true))] {
            assert_eq!(delegate(text), Ok(says), "{text:?}");
        }
        for wrong in ["off", "2", " 0", "\u{fffd}"] {
            assert!(delegate(wrong).unwrap_err().contains("0 or 1"), "{wrong:?}");
        }
    }
}
