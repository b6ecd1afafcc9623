//! Why a file of settings cannot be used.

use std::{error, fmt, path::PathBuf};

use navlock_core::Refusal;
use navlock_platform::user::UserId;

use crate::SystemError;

/// Why a file of settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingsError {
    /// The variable `NAVLOCK_CONFIG` has this path, which is relative. A broker runs in another folder
    /// and would read another file.
    Relative(PathBuf),
    /// The system does not let the file be read.
    Unreadable(PathBuf, SystemError),
    /// The path leads to something that is no file.
    NotAFile(PathBuf),
    /// The file belongs to this other user.
    OtherUser(PathBuf, UserId),
    /// The file has this mode, with which other users can write it.
    TooOpen(PathBuf, u32),
    /// The contents of the file are no settings.
    Invalid {
        /// The file.
        file: PathBuf,
        /// The number of the line, if the error is in one line. The first line has the number 1.
        line: Option<usize>,
        /// The key whose value is wrong, or the key in that line. `None` if neither is known.
        key: Option<String>,
        /// What is wrong, without the values in the file, because a value may be a password. For that
        /// reason the error of the parser is not kept as a source: it shows the whole line.
        what: String,
    },
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relative(path) => write!(
                f,
                "NAVLOCK_CONFIG is {}, and brokers are started in another folder; \
                 set it to an absolute path",
                path.display()
            ),
            Self::Unreadable(path, error) => write!(
                f,
                "cannot read the settings in {}: {error}; correct the file, or remove it",
                path.display()
            ),
            Self::NotAFile(path) => write!(f, "{} is no file; remove it", path.display()),
            Self::OtherUser(path, owner) => {
                write!(f, "{} is owned by uid {owner}; give it to root (chown)", path.display())
            }
            Self::TooOpen(path, mode) => write!(
                f,
                "{} has mode {mode:04o}, with which others can write it; 'chmod go-w' it",
                path.display()
            ),
            Self::Invalid { file, line, key, what } => {
                write!(f, "{}", file.display())?;
                if let Some(line) = line {
                    write!(f, ", line {line}")?;
                }
                if let Some(key) = key {
                    write!(f, " ({key})")?;
                }
                write!(f, ": {what}")
            }
        }
    }
}

impl From<SettingsError> for Refusal {
    fn from(error: SettingsError) -> Self {
        Self::new(error.to_string()).caused_by(error)
    }
}

impl error::Error for SettingsError {
    /// What the system said.
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Unreadable(_, error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{error::Error as _, io};

    use super::*;

    #[test]
    fn the_error_of_the_system_is_the_source() {
        let denied = SystemError::from(io::ErrorKind::PermissionDenied);
        let error = SettingsError::Unreadable("/c.toml".into(), denied);
        let source = error.source().and_then(|source| source.downcast_ref::<SystemError>());
        assert_eq!(source, Some(&denied));
        assert!(SettingsError::NotAFile("/c.toml".into()).source().is_none());
    }

    #[test]
    fn the_place_is_said_as_far_as_it_is_known() {
        let said = |line, key: Option<&str>| {
            let (file, key) = ("/c.toml".into(), key.map(str::to_owned));
            let what = "no number".to_owned();
            SettingsError::Invalid { file, line, key, what }.to_string()
        };
        assert_eq!(said(None, None), "/c.toml: no number");
        assert_eq!(said(Some(3), None), "/c.toml, line 3: no number");
        assert_eq!(said(Some(3), Some("margin")), "/c.toml, line 3 (margin): no number");
        assert_eq!(said(None, Some("socket")), "/c.toml (socket): no number");
    }
}
