//! Why the settings cannot be used.

use std::{error, fmt};

use navlock_broker::SettingsError;

use super::named_file;

/// Why the settings cannot be used: what is wrong, with what, and what to do.
#[derive(Debug)]
pub(crate) enum Error {
    /// A file of settings cannot be read, or its contents are no settings.
    File(SettingsError),
    /// The value of a setting cannot be used.
    Value {
        /// The option, the variable or the file that the value comes from.
        origin: String,
        /// What is wrong with the value, and what to do.
        what: String,
    },
    /// A file that the settings name cannot be used, such as that of a password.
    NamedFile {
        /// The file of settings, for people.
        settings: String,
        error: named_file::Error,
    },
}

impl Error {
    /// [`Value`](Self::Value): what is wrong with a value from here.
    pub(super) fn value(origin: impl fmt::Display, what: impl Into<String>) -> Self {
        Self::Value { origin: origin.to_string(), what: what.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Value { origin, what } => write!(f, "{origin}: {what}"),
            Self::NamedFile { settings, error } => write!(f, "{settings}: {error}"),
        }
    }
}

impl error::Error for Error {
    /// What the system said. The text of this error has the words of its source.
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::File(error) => error.source(),
            Self::NamedFile { error, .. } => error.source(),
            Self::Value { .. } => None,
        }
    }
}

impl From<SettingsError> for Error {
    fn from(error: SettingsError) -> Self {
        Self::File(error)
    }
}

#[cfg(test)]
mod tests {
    use std::{error::Error as _, io};

    use super::*;

    #[test]
    fn the_error_of_the_system_is_the_source() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let of_file = SettingsError::Unreadable("/c.toml".into(), denied().into());
        let of_named = named_file::Error::Unreadable("/password".into(), denied());
        for error in [
            Error::from(of_file),
            Error::NamedFile { settings: "/c.toml".to_owned(), error: of_named },
        ] {
            let source = error.source().expect("the system said something").to_string();
            assert!(error.to_string().contains(&source), "{error}");
        }
        assert!(Error::value("--etcd", "no endpoints").source().is_none());
    }
}
