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
    io as std_io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
};

use navlock_core::{Backend, Error, Reach, UserAgent};
use tokio::sync::oneshot;

use self::{backend::BrokerBackend, connection::Connection};
use crate::{
    Place,
    error::{ConnectError, Reason},
};

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
