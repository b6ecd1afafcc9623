//! The client: an adapter from the backend seam to a socket.
//!
//! One connection, with a thread of its own that hears what the daemon says and wakes whom it
//! concerns; what there is to say is written by the thread that says it. It needs no executor and
//! works with all.
//!
//! # When the connection ends
//!
//! What is waited for fails with [`Error::Unreachable`], and what is held is
//! [`Lost::Disconnected`](navlock_core::Lost::Disconnected). The reach does not connect again:
//! reconnecting to a new daemon, and reclaiming from it what is held, comes later.

mod backend;
mod connection;
mod io;
mod query;
mod table;

use std::{
    error, fmt, io as std_io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use navlock_core::{Backend, Error, Reach, UserAgent};
use tokio::sync::oneshot;

use self::{backend::BrokerBackend, connection::Connection};
use crate::{Place, PlaceError};

/// A user agent whose locks are seen by all processes of this user on this machine.
///
/// Starts the broker if it is not there: with the program that `NAVLOCK_BIN` names, or else
/// `navlock` from `PATH`. Each call is a connection of its own. Works on any executor.
///
/// # Errors
///
/// [`Error::Unreachable`], with what to do about it.
pub async fn local() -> Result<UserAgent, Error> {
    Ok(UserAgent::with_reach(BrokerReach::connect(ConnectOptions::default()).await?))
}

/// Which broker to connect to, and how to start it.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    place: Option<Place>,
    program: Option<PathBuf>,
}

/// The reach of one machine, by one connection. The clones are the same connection; it ends with
/// the last of them and of all that was made with it.
#[derive(Clone, Debug)]
pub struct BrokerReach(Arc<Connection>);

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectError {
    pub(crate) socket: PathBuf,
    pub(crate) reason: Reason,
}

/// What stood between a client and its daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The place is not to be used.
    Place(PlaceError),
    /// It is served by this other user.
    Foreign(u32),
    /// The system refused, while this was being done.
    Io(&'static str, std_io::ErrorKind),
    /// The lock file of those who start a daemon cannot be used.
    LockFile(PathBuf, std_io::ErrorKind),
    /// The program that is the daemon cannot be started.
    Program(PathBuf, std_io::ErrorKind),
    /// The daemon ended before it listened, and said this.
    Failed(String),
    /// The daemon did not listen within this time.
    NotReady(Duration),
    /// The daemon was gone as soon as it was there, again and again.
    Vanished,
    /// Nobody answers within this time.
    Silent(Duration),
    /// The daemon refused the session, and said this.
    Refused(String),
    /// What answers does not speak navlock's protocol.
    Nonsense,
}

impl ConnectOptions {
    /// Connects to the broker at this place; without this, at [`Place::from_env`].
    #[must_use]
    pub fn place(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Starts the broker with this `navlock` program; without this, with the one that
    /// `NAVLOCK_BIN` names, or else the one on `PATH`.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }
}

impl BrokerReach {
    /// Connects to the broker, and starts it if it is not there. Works on any executor: what
    /// blocks is done by the connection's own thread.
    ///
    /// # Errors
    ///
    /// Why there is no connection. No error is lasting: the next call tries again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection, once it is there.
    pub async fn connect(options: ConnectOptions) -> Result<Self, ConnectError> {
        let place = options.place.unwrap_or_else(Place::from_env);
        let socket = place.socket().to_owned();
        let failed = |reason| ConnectError { socket, reason };
        // Tokio's channel, not its runtime.
        let (connected, connection) = oneshot::channel();
        let thread =
            std::thread::Builder::new().name("navlock-broker".to_owned()).spawn(move || {
                match Connection::open(&place, options.program.as_deref()) {
                    Ok((connection, hearing)) => {
                        // Who asked may be gone: then nobody has the connection, and it ends.
                        let _ = connected.send(Ok(connection));
                        hearing.run();
                    }
                    Err(reason) => {
                        let _ = connected.send(Err(reason));
                    }
                }
            });
        match thread {
            Ok(_detached) => match connection.await {
                Ok(Ok(connection)) => Ok(Self(Arc::new(connection))),
                Ok(Err(reason)) => Err(failed(reason)),
                Err(_panicked) => Err(failed(Reason::Vanished)),
            },
            Err(error) => Err(failed(Reason::Io("starting a thread", error.kind()))),
        }
    }

    /// A descriptor that programs started from now on inherit: while one of them has it, the
    /// connection lives, and with it the locks, even if this process is killed.
    ///
    /// It is inherited by every program that any thread starts before it is dropped.
    ///
    /// # Errors
    ///
    /// If this process has no descriptors left.
    pub fn lifeline(&self) -> std_io::Result<OwnedFd> {
        // The copy lacks the original's mark to be closed.
        Ok(rustix::io::dup(self)?)
    }
}

impl Reach for BrokerReach {
    fn open_bucket(&self, name: &str) -> Box<dyn Backend> {
        Box::new(BrokerBackend::new(Arc::clone(&self.0), name))
    }
}

impl AsFd for BrokerReach {
    /// The socket. Nothing can be read from it or written to it without harm.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.socket()
    }
}

impl ConnectError {
    /// The path of the socket that was tried.
    pub fn socket(&self) -> &std::path::Path {
        &self.socket
    }

    /// What was wrong.
    pub fn reason(&self) -> &Reason {
        &self.reason
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot reach the broker at {}: {}", self.socket.display(), self.reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(error) => error.fmt(f),
            Self::Foreign(uid) => write!(
                f,
                "it is served by uid {uid}, whom we do not trust; \
                 set NAVLOCK_SOCKET to a path in a directory of yours"
            ),
            Self::Io(doing, kind) => {
                write!(f, "{kind} while {doing}; mend that or set NAVLOCK_SOCKET")
            }
            Self::LockFile(path, std_io::ErrorKind::WouldBlock) => write!(
                f,
                "somebody is starting it and does not come to an end; see who holds {}",
                path.display()
            ),
            Self::LockFile(path, kind) => {
                write!(f, "{kind} at {}; remove it or set NAVLOCK_SOCKET", path.display())
            }
            Self::Program(path, std_io::ErrorKind::NotFound) => write!(
                f,
                "it is not running, and there is no program {} to start it with; \
                 install navlock or set NAVLOCK_BIN to its path",
                path.display()
            ),
            Self::Program(path, kind) => {
                write!(f, "it is not running, and {} cannot be started: {kind}", path.display())
            }
            Self::Failed(said) if said.is_empty() => {
                f.write_str("it ended while it was starting, without a word; try again")
            }
            Self::Failed(said) => write!(f, "it could not start: {said}"),
            Self::NotReady(time) => write!(
                f,
                "it was started and does not listen after {} seconds; is the machine overloaded?",
                time.as_secs()
            ),
            Self::Vanished => f.write_str("it ends as soon as it is there; try again"),
            Self::Silent(time) => write!(
                f,
                "it does not answer within {} seconds; end its process if it is stuck",
                time.as_secs()
            ),
            Self::Refused(said) => write!(f, "it refused: {said}"),
            Self::Nonsense => f.write_str(
                "what answers there is no navlock broker; set NAVLOCK_SOCKET to another path",
            ),
        }
    }
}

impl error::Error for ConnectError {}

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        Self::Unreachable(error.to_string())
    }
}

impl From<PlaceError> for Reason {
    fn from(error: PlaceError) -> Self {
        Self::Place(error)
    }
}
