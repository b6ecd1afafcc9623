//! Why there is no connection to a broker.

use std::{
    error, fmt, io,
    path::{Path, PathBuf},
    time::Duration,
};

use navlock_core::{Error, Unreachable, UnreachableKind};
use navlock_platform::user::UserId;
use navlock_wire::{CodecError, MAX_FRAME};

use crate::{
    PlaceError, SettingsError, SystemError, buckets::variable_of_own, private_tmp,
    system_error::time as in_words,
};

/// Why there is no connection.
///
/// ```
/// use navlock::{BrokerReach, ConnectOptions, Reason};
/// # use navlock::Place;
///
/// # let directory = tempfile::tempdir()?;
/// let options = ConnectOptions::default().only_running();
/// # let options = options.place(Place::at(directory.path().join("sock")));
/// match BrokerReach::connect_blocking(options) {
///     Ok(reach) => println!("{} names are owned", reach.owned()),
///     Err(error) if *error.reason() == Reason::NotRunning => {
///         println!("no broker listens at {}", error.socket().display());
///     }
///     Err(error) => return Err(error.into()),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectError {
    pub(crate) socket: PathBuf,
    pub(crate) reason: Reason,
}

/// The reason why a client has no connection to its daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The place cannot be used.
    Place(PlaceError),
    /// The socket is served by this other user.
    OtherUser(UserId),
    /// The system has refused this step.
    Io(&'static str, SystemError),
    /// The lock file that a client locks while it starts a daemon cannot be used.
    LockFile(PathBuf, SystemError),
    /// The daemon's program cannot be started.
    Program(PathBuf, SystemError),
    /// The daemon ended before it listened, and said this.
    Failed(String),
    /// The daemon ended before it listened, while it waited for the service that keeps its locks, and
    /// said this.
    NotReached(String),
    /// The daemon did not listen within this time.
    NotReady(Duration),
    /// The daemon did not listen within this time, because it waits for this service, which keeps its
    /// locks.
    Waits(Duration, String),
    /// The daemon was gone before it had answered, or it ended before it listened and said nothing.
    /// It was killed, or had just decided to end. This has happened at each of several tries.
    Vanished,
    /// There was no answer within this time.
    Silent(Duration),
    /// The daemon does not answer, because its process, which has this number, is stopped.
    Stopped(u32),
    /// The daemon refused the session, and said this.
    Refused(String),
    /// Something else answers, which does not speak navlock's protocol: its bytes are no messages, for
    /// this reason, or they are a message that a daemon does not send at that moment (`None`).
    NotNavlock(Option<CodecError>),
    /// The client's own message cannot be encoded, for this reason, and was not sent.
    NotEncoded(CodecError),
    /// The client's thread that was to connect has panicked.
    Panicked,
    /// The daemon does not end. This has its process id, if it is known.
    Hangs(Option<u32>),
    /// Nobody listens, and the client was told not to start a daemon.
    NotRunning,
    /// The machine's broker is wanted, which clients do not start, and nobody listens.
    NoSystemBroker,
    /// The daemon keeps locks of this machine only, but the client needs a daemon whose locks are
    /// seen beyond it.
    NotShared,
}

impl ConnectError {
    /// The path of the socket that was tried.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The reason.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Reason::Place(PlaceError::Settings(_)) = &self.reason {
            return write!(f, "cannot tell where the broker is: {}", self.reason);
        }
        let tried = match self.reason {
            // There is a connection, and nothing is wrong with it.
            Reason::NotEncoded(_) => "ask",
            _ => "reach",
        };
        write!(f, "cannot {tried} the broker at {}: {}", self.socket.display(), self.reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(error) => error.fmt(f),
            Self::OtherUser(uid) => write!(
                f,
                "another user (uid {uid}) serves it; \
                 set NAVLOCK_SOCKET to a path in a directory that is yours alone"
            ),
            Self::Io(doing, error) => {
                write!(f, "{error} while {doing}; remove the cause, or set NAVLOCK_SOCKET to another path")
            }
            Self::LockFile(path, error) if error.kind() == io::ErrorKind::WouldBlock => write!(
                f,
                "another process has been starting the broker for too long; see which one holds {}",
                path.display()
            ),
            Self::LockFile(path, error) => {
                let path = path.display();
                let remedy = "remove the cause, or set NAVLOCK_SOCKET to another path";
                write!(f, "cannot lock {path}: {error}; {remedy}")
            }
            Self::Program(path, error) => {
                // The system also says that something is not found if `/dev/null` is not there.
                if error.kind() == io::ErrorKind::NotFound && !path.is_file() {
                    write!(
                        f,
                        "it is not running, and there is no program {} to start it with; \
                         install navlock or set NAVLOCK_BIN to its path",
                        path.display()
                    )?;
                } else {
                    let path = path.display();
                    write!(f, "it is not running, and {path} cannot be started: {error}")?;
                }
                private_tmp::tell_peculiarities(f)
            }
            Self::Failed(said) | Self::NotReached(said) => write!(f, "it could not start: {said}"),
            Self::NotReady(time) => write!(
                f,
                "the broker was started, but did not listen within {}; is the machine overloaded?",
                in_words(*time)
            ),
            Self::Waits(time, what) => write!(
                f,
                "the broker was started, but waits for {what}, which did not answer within {}; \
                 'navlock doctor' says what is wrong",
                in_words(*time)
            ),
            Self::Vanished => f.write_str(
                "the broker hung up before it answered: it has ended, or there are too many connections; try again",
            ),
            Self::Silent(time) => write!(
                f,
                "the broker did not answer within {}; end its process if it hangs",
                in_words(*time)
            ),
            Self::Stopped(pid) => {
                write!(f, "the broker (process {pid}) is stopped; let it go on: kill -CONT {pid}")
            }
            Self::Refused(said) => write!(f, "it refused: {said}"),
            Self::Hangs(Some(pid)) => {
                write!(f, "it does not end; 'kill -KILL {pid}' ends it, and its clients keep their locks")
            }
            Self::Hangs(None) => f.write_str(
                "it does not end as it is asked to, and which process it is cannot be told for certain; \
                 end it by hand where it runs, or wait until its clients have gone",
            ),
            Self::NoSystemBroker => f.write_str(
                "no system broker runs; an administrator starts it (systemctl enable --now navlock.socket, or \
                 navlock daemon run --system)",
            ),
            Self::NotRunning => f.write_str("it is not running; the next client that needs it starts it"),
            Self::NotShared => {
                let set = variable_of_own().unwrap_or("NAVLOCK_ETCD");
                write!(f, "it keeps locks of this machine only, but {set} is set; 'navlock daemon stop' ends it, and the next one shares its locks")
            }
            Self::NotNavlock(error) => {
                f.write_str(
                    "the program that answers there is no navlock broker; set NAVLOCK_SOCKET to another \
                     path (its answer: ",
                )?;
                match error {
                    Some(error) => error.fmt(f)?,
                    None => f.write_str("a message that a broker does not send at that point")?,
                }
                f.write_str(")")
            }
            Self::NotEncoded(CodecError::TooLong) => write!(
                f,
                "the message is longer than {MAX_FRAME} bytes; use a shorter name, bucket or filter, or \
                 name fewer locks"
            ),
            Self::NotEncoded(error) => write!(f, "{error}; report this as a fault of navlock"),
            Self::Panicked => f.write_str(
                "the thread that was to connect has panicked; report this as a fault of navlock, \
                 with the text of the panic on the error stream",
            ),
        }
    }
}

impl error::Error for ConnectError {
    /// The error of the system or of the codec.
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        let system = self.reason.system().map(|error| error as _);
        system.or_else(|| self.reason.codec().map(|error| error as _))
    }
}

impl Reason {
    /// What the system said.
    fn system(&self) -> Option<&SystemError> {
        match self {
            Self::Place(
                PlaceError::Io(_, error)
                | PlaceError::Settings(SettingsError::Unreadable(_, error)),
            )
            | Self::Io(_, error)
            | Self::LockFile(_, error)
            | Self::Program(_, error) => Some(error),
            _ => None,
        }
    }

    /// Why a message could not be decoded or encoded.
    fn codec(&self) -> Option<&CodecError> {
        match self {
            Self::NotNavlock(error) => error.as_ref(),
            Self::NotEncoded(error) => Some(error),
            _ => None,
        }
    }

    /// The kind of the error for a program that needs the daemon.
    fn unreachable_kind(&self) -> UnreachableKind {
        match (self, self.system().map(|error| error.kind())) {
            (_, Some(io::ErrorKind::PermissionDenied)) => UnreachableKind::PermissionDenied,
            (Self::Failed(_) | Self::Vanished | Self::NotRunning | Self::NoSystemBroker | Self::Program(..), _)
            | (
                _,
                Some(
                    io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof,
                ),
            ) => UnreachableKind::Unavailable,
            (Self::NotReached(_) | Self::Waits(..), _) => UnreachableKind::Upstream,
            (Self::NotReady(_) | Self::Silent(_) | Self::Stopped(_) | Self::Hangs(_), _)
            // Somebody else has the lock file locked for longer than the client waits.
            | (Self::LockFile(..), Some(io::ErrorKind::WouldBlock))
            | (_, Some(io::ErrorKind::TimedOut)) => UnreachableKind::TimedOut,
            (Self::NotNavlock(_), _) => UnreachableKind::Protocol,
            _ => UnreachableKind::Other,
        }
    }
}

impl From<ConnectError> for Unreachable {
    /// The source is a [`std::io::Error`] if the system refused something, and a [`CodecError`] if a
    /// message could not be decoded or encoded.
    fn from(error: ConnectError) -> Self {
        let why = Self::new(error.reason.unreachable_kind(), error.to_string());
        match (error.reason.system(), error.reason.codec()) {
            (Some(&system), _) => why.caused_by(io::Error::from(system)),
            (None, Some(codec)) => why.caused_by(codec.clone()),
            (None, None) => why,
        }
    }
}

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        Unreachable::from(error).into()
    }
}

impl From<PlaceError> for Reason {
    fn from(error: PlaceError) -> Self {
        Self::Place(error)
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn an_error_of_the_system_is_found_behind_those_that_it_caused() {
        let refused = SystemError::from(io::Error::from_raw_os_error(13));
        let place = PlaceError::Io("/d".into(), refused);
        for reason in [Reason::Io("connecting", refused), Reason::Place(place)] {
            let error = ConnectError { socket: "/d/sock".into(), reason };
            let source = error.source().and_then(|source| source.downcast_ref::<SystemError>());
            assert_eq!(source.and_then(|source| source.raw_os_error()), Some(13), "{error}");
            assert!(error.to_string().contains(&refused.to_string()));
        }
        let nobody = ConnectError { socket: "/d/sock".into(), reason: Reason::NotRunning };
        assert!(nobody.source().is_none());
    }

    fn unreachable(reason: Reason) -> Unreachable {
        ConnectError { socket: "/d/sock".into(), reason }.into()
    }

    #[test]
    fn a_refused_connection_is_an_error_of_the_standard_library_behind_that_of_a_request() {
        let refused = SystemError::from(io::ErrorKind::ConnectionRefused);
        let error =
            ConnectError { socket: "/d/sock".into(), reason: Reason::Io("connecting", refused) };
        let message = error.to_string();
        let error = Error::from(error);
        assert_eq!(error.to_string(), message);
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::ConnectionRefused));
        assert!(Error::from(unreachable(Reason::NotRunning)).source().is_none());
    }

    #[test]
    fn an_error_of_the_codec_is_the_source_and_says_whose_message_it_was() {
        let (theirs, ours) = (CodecError::TrailingBytes, CodecError::TooLong);
        for (reason, codec, begins) in [
            (
                Reason::NotNavlock(Some(theirs.clone())),
                theirs,
                "cannot reach the broker at /d/sock: the program that answers there is no navlock broker",
            ),
            (
                Reason::NotEncoded(ours.clone()),
                ours,
                "cannot ask the broker at /d/sock: the message is longer",
            ),
        ] {
            let error = ConnectError { socket: "/d/sock".into(), reason };
            let found = |error: &dyn error::Error| error.source()?.downcast_ref().cloned();
            assert_eq!(found(&error), Some(codec.clone()), "{error}");
            assert!(error.to_string().starts_with(begins), "{error}");
            assert_eq!(found(&Unreachable::from(error)), Some(codec));
        }
        assert!(unreachable(Reason::NotNavlock(None)).source().is_none());
    }

    #[test]
    fn a_program_can_tell_why_there_is_no_broker() {
        let denied = SystemError::from(io::ErrorKind::PermissionDenied);
        let none = SystemError::from(io::ErrorKind::NotFound);
        let taken = SystemError::from(io::ErrorKind::WouldBlock);
        let reset = SystemError::from(io::ErrorKind::ConnectionReset);
        let late = SystemError::from(io::ErrorKind::TimedOut);
        let place = |error| Reason::Place(PlaceError::Io("/d".into(), error));
        let settings = |error| {
            let error = SettingsError::Unreadable("/c.toml".into(), error);
            Reason::Place(PlaceError::Settings(error))
        };
        let second = Duration::from_secs(1);
        for (reason, kind) in [
            (Reason::NotRunning, UnreachableKind::Unavailable),
            (Reason::NoSystemBroker, UnreachableKind::Unavailable),
            (Reason::Program("/b".into(), none), UnreachableKind::Unavailable),
            (Reason::Program("/b".into(), denied), UnreachableKind::PermissionDenied),
            (place(denied), UnreachableKind::PermissionDenied),
            (place(none), UnreachableKind::Other),
            (settings(denied), UnreachableKind::PermissionDenied),
            (Reason::LockFile("/d/spawn.lock".into(), taken), UnreachableKind::TimedOut),
            (Reason::Io("connecting", reset), UnreachableKind::Unavailable),
            (Reason::Io("connecting", late), UnreachableKind::TimedOut),
            (Reason::Silent(second), UnreachableKind::TimedOut),
            (Reason::Waits(second, "etcd at a:1".to_owned()), UnreachableKind::Upstream),
            (Reason::NotReached("no etcd".to_owned()), UnreachableKind::Upstream),
            (Reason::Failed("no etcd".to_owned()), UnreachableKind::Unavailable),
            (Reason::NotNavlock(None), UnreachableKind::Protocol),
            (Reason::NotNavlock(Some(CodecError::Truncated)), UnreachableKind::Protocol),
            (Reason::NotEncoded(CodecError::TooLong), UnreachableKind::Other),
            (Reason::Panicked, UnreachableKind::Other),
        ] {
            assert_eq!(unreachable(reason.clone()).kind(), kind, "{reason:?}");
        }
    }
}
