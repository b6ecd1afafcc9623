//! Why a request for several locks failed.

use std::{error, fmt};

use navlock_engine::ResourceName;

use crate::Error;

/// Why a request for several names failed, and at which of them.
///
/// It can be turned into the [`Error`] alone. The operator `?` does so in a function that returns [`Error`].
///
/// ```
/// # use navlock::{Error, UserAgent};
/// # let locks = UserAgent::new().lock_manager("app");
/// use std::time::Duration;
///
/// use navlock::FailedName;
///
/// let log = locks.lock("log").blocking()?;
/// let failed = locks.lock_all(["db", "log"]).blocking_timeout(Duration::ZERO).unwrap_err();
/// assert!(matches!(failed.error, Error::TimedOut(_)));
/// assert_eq!(failed.at, Some(FailedName::Name("log".try_into()?)));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LockAllError {
    /// What went wrong.
    pub error: Error,
    /// The name at which it went wrong; `None` if the error is the same for all names.
    pub at: Option<FailedName>,
}

/// At which of several names a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailedName {
    /// At this one.
    Name(ResourceName),
    /// At the name that was given at this place, counted from 0. It is no name that can be locked.
    Place(usize),
}

impl LockAllError {
    pub(super) fn of(name: &ResourceName, error: Error) -> Self {
        Self { error, at: Some(FailedName::Name(name.clone())) }
    }
}

impl From<Error> for LockAllError {
    fn from(error: Error) -> Self {
        Self { error, at: None }
    }
}

impl From<LockAllError> for Error {
    fn from(failed: LockAllError) -> Self {
        failed.error
    }
}

impl fmt::Display for LockAllError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some(FailedName::Name(name)) => write!(f, "{name:?}: {}", self.error),
            Some(FailedName::Place(place)) => write!(f, "name {}: {}", place + 1, self.error),
            None => self.error.fmt(f),
        }
    }
}

impl error::Error for LockAllError {
    /// The source of the [`Error`]. The [`Error`] itself is left out of the chain of sources, because the
    /// text of this error contains the text of the [`Error`] already.
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.error.source()
    }
}
