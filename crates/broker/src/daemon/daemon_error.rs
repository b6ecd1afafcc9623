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
    /// The socket that was passed is not at this place, which is the daemon's, but at this other path. If
    /// there is no other path, the socket has none.
    Passed(PathBuf, Option<PathBuf>),
    /// What was passed for this place cannot be used as a socket, for this reason.
    Unusable(PathBuf, io::Error),
    /// The service that keeps the daemon's locks cannot be used, for this reason.
    Reach(Box<dyn Error + Send + Sync>),
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
            Self::Passed(path, passed) => {
                f.write_str("the socket that was passed (LISTEN_FDS) is ")?;
                match passed {
                    Some(passed) => passed.display().fmt(f)?,
                    None => f.write_str("a socket without a path")?,
                }
                write!(
                    f,
                    ", and the broker's place is {}; have both say the same, by ListenStream= or \
                     NAVLOCK_SOCKET",
                    path.display()
                )
            }
            Self::Unusable(path, error) => write!(
                f,
                "the socket that was passed (LISTEN_FDS) for {} cannot be used: {error}; have \
                 ListenStream= of its unit name that path",
                path.display()
            ),
            Self::Reach(why) => why.fmt(f),
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl Error for DaemonError {
    /// The error of the system, or of the layer beneath the service that keeps the locks.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Place(error) => error.source(),
            Self::Io(_, error) | Self::Unusable(_, error) => Some(error),
            // The text of `why` is the text of this error, so `why` itself is no link of the chain.
            Self::Reach(why) => why.source(),
            Self::Taken(_) | Self::Passed(..) => None,
        }
    }
}

impl From<PlaceError> for DaemonError {
    fn from(error: PlaceError) -> Self {
        Self::Place(error)
    }
}

#[cfg(test)]
mod tests {
    use navlock_core::{Unreachable, UnreachableKind};

    use super::*;

    #[test]
    fn the_cause_beneath_the_service_is_the_source() {
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        let why = Unreachable::new(UnreachableKind::Unavailable, "etcd: reset").caused_by(reset);
        let error = DaemonError::Reach(navlock_core::Error::from(why).into());
        assert_eq!(error.to_string(), "etcd: reset");
        let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
        assert_eq!(cause.map(io::Error::kind), Some(io::ErrorKind::ConnectionReset));
    }

    #[test]
    fn an_unusable_socket_is_told_from_one_at_another_path() {
        let no_socket = || io::Error::other("no socket");
        let unusable = DaemonError::Unusable("/d/sock".into(), no_socket());
        assert!(unusable.to_string().contains("for /d/sock cannot be used: no socket;"));
        assert!(unusable.source().is_some());
        for (passed, is) in
            [(Some("/other".into()), "is /other, and"), (None, "is a socket without a path, and")]
        {
            let elsewhere = DaemonError::Passed("/d/sock".into(), passed);
            assert!(elsewhere.to_string().contains(is), "{elsewhere}");
            assert!(elsewhere.source().is_none());
        }
    }
}
