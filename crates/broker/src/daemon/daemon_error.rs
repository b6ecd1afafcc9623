//! Why a daemon could not start, or had to end.

use std::{error::Error, fmt, io, path::PathBuf};

use crate::{PlaceError, lock_file};

/// Why a daemon could not start, or had to end.
#[derive(Debug)]
#[non_exhaustive]
pub enum DaemonError {
    /// The daemon's place cannot be used.
    Place(PlaceError),
    /// Another daemon has the place, and does not end.
    Taken(PathBuf),
    /// The socket that was passed is at another place, or what was passed is no socket.
    Passed(PathBuf, String),
    /// The service that keeps the daemon's locks cannot be used, for this reason.
    Reach(String),
    /// Something failed at this path.
    Io(PathBuf, io::Error),
}

impl fmt::Display for DaemonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(error) => error.fmt(f),
            Self::Taken(path) => {
                let pid = lock_file::read_short(path).unwrap_or_default();
                let pid = Some(pid.trim()).filter(|pid| !pid.is_empty()).unwrap_or("unknown");
                write!(
                    f,
                    "another broker (process {pid}) holds {}; use its socket, or end it",
                    path.display()
                )
            }
            Self::Passed(path, is) => write!(
                f,
                "the socket that was passed (LISTEN_FDS) is {is}, and the broker's place is {}; have \
                 both say the same, by ListenStream= or NAVLOCK_SOCKET",
                path.display()
            ),
            Self::Reach(why) => f.write_str(why),
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl Error for DaemonError {
    /// The error of the system.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Place(error) => error.source(),
            Self::Io(_, error) => Some(error),
            _ => None,
        }
    }
}

impl From<PlaceError> for DaemonError {
    fn from(error: PlaceError) -> Self {
        Self::Place(error)
    }
}
