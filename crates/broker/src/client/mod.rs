//! The client: an adapter from the backend seam to a socket.
//!
//! One connection, with a thread of its own that keeps it; what there is to say is written by the
//! thread that says it, and a thread that blocks for an answer hears it itself. It needs no executor
//! and works with all.
//!
//! # When the connection ends
//!
//! A new one begins with what there was: what is held is claimed, and what is waited for keeps its
//! place. If there is none to be had in nine seconds, what is waited for fails with
//! [`Error::Unreachable`], and the next request tries again.
//!
//! What is held stays held for as long as nobody else can have been granted it, with a daemon or
//! without. A daemon that does not wait any longer, because we did not come back in ten seconds,
//! notes that before it grants anything: it removes our file. So while there is
//! no connection, the file says whether our locks are still ours; once it is gone they are
//! [`Lost::Disconnected`](navlock_core::Lost::Disconnected), be it that we find that out in the
//! second before somebody else can have them, or later because we were stopped.
//!
//! # When locks end by themselves
//!
//! A daemon whose locks are leased says until when an agent has what it has. When that is over and it
//! has not said more, because it is stopped, hung, cut off or gone, or because we were stopped, what
//! is held is [`Lost::Disconnected`](navlock_core::Lost::Disconnected) at once: from then on another
//! machine may be granted it.

mod backend;
mod connect_options;
mod connection;
mod control;
mod handshake;
mod lifeline;
mod look;
mod maintainer;
mod owned;
mod query;
mod questions;
mod reader;
mod table;

use std::{io, sync::Arc};

use navlock_core::{
    ClientId, Error, ResourceName, UserAgent,
    host::{Backend, Looking, Reach},
    look::LookOptions,
};
use navlock_platform::wait::Source;
use navlock_wire::ToDaemon;
use tokio::sync::oneshot;

use self::{
    backend::BrokerBackend,
    connection::{Connection, Shared, start_thread},
    maintainer::Maintainer,
    reader::WakePipe,
};
pub use self::{
    connect_options::ConnectOptions,
    control::{Control, NotStolen, Stopped, stop},
    lifeline::{Lifeline, PreparedLifeline},
    look::Look,
};
use crate::{
    Place, Status,
    client_files::ClientFiles,
    connect_error::{ConnectError, Reason},
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

/// The reach of one machine, by one connection. The clones are the same connection; it ends with
/// the last of them and of all that was made with it.
#[derive(Clone, Debug)]
pub struct BrokerReach(Arc<Connection>);

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
        let place = options.find_place()?;
        let socket = place.socket().to_owned();
        let failed = |reason| ConnectError { socket, reason };
        // Tokio's channel, not its runtime.
        let (connected, connection) = oneshot::channel();
        let thread = maintainer_thread(move || match open(place, options, |_| {}) {
            Ok((connection, maintainer)) => {
                // Who asked may be gone: then nobody has the connection, and it ends.
                let _ = connected.send(Ok(connection));
                maintainer.run();
            }
            Err(reason) => {
                let _ = connected.send(Err(reason));
            }
        });
        match thread {
            Ok(()) => match connection.await {
                Ok(Ok(connection)) => Ok(Self(Arc::new(connection))),
                Ok(Err(reason)) => Err(failed(reason)),
                Err(_panicked) => Err(failed(Reason::Vanished)),
            },
            Err(reason) => Err(failed(reason)),
        }
    }

    /// Connects as [`connect`](Self::connect) does, on this thread, which is blocked by it. The
    /// connection has no thread of its own until it needs one: what is asked for by calls that block
    /// is heard by those themselves. For programs with one thread that are over in a moment: to start
    /// a thread takes longer than to be granted a lock.
    ///
    /// A thread is needed, and started, when a future is polled by an executor, when locks end by
    /// themselves, when the broker has ended, and when [`keep`](Self::keep) is called. Until then
    /// nobody hears between two calls: a guard that is asked whether it is lost hears first what has
    /// been said, and who wants to be told meanwhile waits for [`unheard`](Self::unheard).
    ///
    /// # Errors
    ///
    /// As those of [`connect`](Self::connect).
    pub fn connect_blocking(options: ConnectOptions) -> Result<Self, ConnectError> {
        let place = options.find_place()?;
        let socket = place.socket().to_owned();
        match open(place, options, Shared::hold_back) {
            Ok((connection, maintainer)) => {
                connection.shared().start_thread_later(|| maintainer.run());
                Ok(Self(Arc::new(connection)))
            }
            Err(reason) => Err(ConnectError { socket, reason }),
        }
    }

    /// What becomes readable when there is something to be heard, while no thread hears it. Whoever
    /// waits for other descriptors waits for this one too, and then calls [`keep`](Self::keep). `None`
    /// if there is a thread, something to be heard already, or something to do for which there was no
    /// thread to be had: then each lock is to be asked now and then whether it is lost.
    pub fn unheard(&self) -> Option<impl Source + use<>> {
        self.0.shared().unheard()
    }

    /// Hears what the broker has said until now, also where a thread is about to: a lock that is asked
    /// after that whether it is lost knows. For who has waited for something else as well, which may
    /// have come to be known sooner.
    pub fn hear(&self) {
        self.0.shared().hear_all();
    }

    /// Starts the thread that hears what is said on this connection and keeps it, if there is none.
    ///
    /// # Errors
    ///
    /// If this process may have no more threads. It can be tried again.
    pub fn keep(&self) -> io::Result<()> {
        self.0.shared().keep()
    }

    /// A connection that is made once somebody asks for something, and then as
    /// [`connect`](Self::connect) makes it. Nobody waits for it: what is asked for before it is
    /// there is asked for, in the same order, as soon as it is; and if it cannot be had, that fails
    /// with [`Error::Unreachable`] and the next request tries again.
    ///
    /// # Errors
    ///
    /// If this process may have no more threads or descriptors.
    pub fn connect_when_needed(options: ConnectOptions) -> Result<Self, ConnectError> {
        let place = options.find_place()?;
        let socket = place.socket().to_owned();
        let failed = |reason| ConnectError { socket, reason };
        let (connection, maintainer) = match prepare(place, options) {
            Ok(prepared) => prepared,
            Err(reason) => return Err(failed(reason)),
        };
        match maintainer_thread(move || maintainer.run_when_needed()) {
            Ok(()) => Ok(Self(Arc::new(connection))),
            Err(reason) => Err(failed(reason)),
        }
    }

    /// Takes room for a hold that programs are to inherit on locks of these names.
    ///
    /// # Errors
    ///
    /// If the broker's directory has no room for it, or cannot be written to.
    pub fn prepare_lifeline(&self, names: &[ResourceName]) -> io::Result<PreparedLifeline> {
        PreparedLifeline::new(&self.0, names)
    }

    /// How many names are this connection's own at the moment: they are taken and released without
    /// asking the broker, until somebody else asks for them. See [`ConnectOptions::delegate`].
    pub fn owned(&self) -> usize {
        let shared = self.0.shared();
        if shared.is_forked() { 0 } else { shared.owned.count() }
    }

    /// How the daemon is.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`].
    pub async fn status(&self) -> Result<Status, Error> {
        let answer = query::Answer::ask(&self.0, |query| ToDaemon::Status { query }).await?;
        let status = answer.status.map(|status| Status::new(status, self.0.table().reach()));
        status.ok_or_else(|| Error::Unreachable("the broker answered another question".to_owned()))
    }
}

/// Starts the thread that keeps a connection. It ends with the connection.
fn maintainer_thread(keep: impl FnOnce() + Send + 'static) -> Result<(), Reason> {
    start_thread(keep).map_err(|error| Reason::Io("starting a thread", error.into()))
}

/// Connects, and has it known that we live, before which this is done. Blocks.
fn open(
    place: Place,
    options: ConnectOptions,
    before: impl FnOnce(&Shared),
) -> Result<(Connection, Maintainer), Reason> {
    let welcomed = handshake::connect(&place, &options, options.patience())?;
    let (connection, maintainer) = prepare(place, options)?;
    before(connection.shared());
    connection.shared().connected(welcomed)?;
    Ok((connection, maintainer))
}

/// A connection before it is made.
fn prepare(place: Place, options: ConnectOptions) -> Result<(Connection, Maintainer), Reason> {
    let wake_pipe = || WakePipe::new().map_err(|error| Reason::Io("connecting", error.into()));
    let files = ClientFiles::of(&place);
    let key = ClientId::random().to_bytes();
    let (nudge, nudged) = wake_pipe()?.split();
    let path = place.socket().to_owned();
    let (only_questions, delegate) = (options.only_questions, options.may_delegate());
    let shared = Shared::new(path, files, key, nudge, wake_pipe()?, only_questions, delegate);
    let shared = Arc::new(shared.map_err(|error| Reason::Io("connecting", error.into()))?);
    let maintainer = Maintainer::new(Arc::clone(&shared), nudged, place, options);
    Ok((Connection::new(shared), maintainer))
}

impl Reach for BrokerReach {
    fn open_bucket(&self, name: &str) -> Box<dyn Backend> {
        Box::new(BrokerBackend::new(Arc::clone(&self.0), name))
    }

    /// By a connection of its own, which is no client.
    fn look(&self, options: &LookOptions) -> Option<Box<dyn Looking>> {
        let place = Place::at(&self.0.shared().path);
        Some(Box::new(Look::new(place, options.clone())))
    }
}
