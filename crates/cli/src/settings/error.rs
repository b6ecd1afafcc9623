//! Why the settings cannot be used.

use std::{error, fmt, io};

use navlock_broker::SettingsError;

/// Why the settings cannot be used: what is wrong, with what, and what to do.
#[derive(Debug)]
pub(crate) struct Error {
    what: String,
    /// The error of the system, or of the file of settings. The text has its words.
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

impl Error {
    pub(super) fn new(what: String) -> Self {
        Self { what, source: None }
    }

    /// What is wrong with a value from here: an option, a variable or a file.
    pub(super) fn value(origin: impl fmt::Display, what: impl fmt::Display) -> Self {
        Self::new(format!("{origin}: {what}"))
    }

    /// What the system said, which is the source.
    pub(super) fn of_system(what: String, source: io::Error) -> Self {
        Self { what, source: Some(Box::new(source)) }
    }

    /// The error of something that this file of settings names.
    pub(super) fn named_in(self, settings: &str) -> Self {
        Self { what: format!("{settings}: {}", self.what), ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&**self.source.as_ref()?)
    }
}

impl From<SettingsError> for Error {
    fn from(error: SettingsError) -> Self {
        Self { what: error.to_string(), source: Some(Box::new(error)) }
    }
}
