//! The client: an adapter from the backend seam to a socket.
//!
//! There is one connection, and a thread of its own keeps it. The thread that makes a request sends
//! the message itself, and a thread that blocks for an answer reads the answer itself. The client
//! needs no executor and works with all of them.
//!
//! # When the connection ends
//!
//! A new connection begins with the state of the last one: held locks are claimed, and requests
//! keep their places. If there is no new connection in nine seconds, the requests fail with
//! [`Error::Unreachable`], and the next request tries again.
//!
//! Locks stay held as long as nobody else can have been granted them, with or without a daemon. If
//! a client does not come back to a new daemon in ten seconds, the daemon removes the client's file
//! before it grants anything. So while there is no connection, the file tells whether the client
//! still has its locks. Once the file is gone, the locks are
//! [`Lost::Disconnected`](navlock_core::Lost::Disconnected). The client finds this out in the
//! second before somebody else can get the locks, or later if it was stopped.
//!
//! # When locks end by themselves
//!
//! A daemon whose locks are leased says until when an agent has its locks. The daemon may fail to
//! prolong this time, because it is stopped, hung, cut off or gone; or the client may not hear of it,
//! because the client was stopped. When the time is over, the locks are
//! [`Lost::Disconnected`](navlock_core::Lost::Disconnected) at once, because from then on they may be
//! granted to another machine.

mod backend;
mod by_bucket;
mod client_table;
mod connect_options;
mod connection;
mod control;
mod handshake;
mod lifeline;
mod look;
mod maintainer;
mod message_stream;
mod opening;
mod owned;
mod query;
mod questions;
mod reader;
#[cfg(test)]
pub(crate) mod simulated;

use std::{io, sync::Arc};

use navlock_core::{
    Error, ResourceName, Unreachable, UnreachableKind, UserAgent,
    blocking::block_on,
    host::{Backend, Looking, Reach},
    look::LookOptions,
};
use navlock_platform::wait::Source;
use navlock_wire::{Status, ToDaemon};
use tokio::sync::oneshot;

pub(crate) use self::handshake::ask_for_file;
use self::{
    backend::BrokerBackend,
    by_bucket::ByBucket,
    connection::{Connection, Shared},
    opening::{connect_when_needed, maintainer_thread, open},
};
pub use self::{
    connect_options::ConnectOptions,
    control::{Control, Stopped, stop},
    lifeline::{Lifeline, PreparedLifeline},
    look::Look,
};
use crate::{
    Place,
    buckets::Buckets,
    connect_error::{ConnectError, Reason},
};

/// A user agent whose locks are seen by all processes of this user on this machine.
///
/// Starts the broker if it does not run, with the program that `NAVLOCK_BIN` names, or else with
/// `navlock` from `PATH`. Each call makes a connection of its own. Works on any executor.
/// [`BrokerReach::connect`] does the same with another broker, or another program.
///
/// ```no_run
/// # use navlock::local;
/// # navlock::blocking::block_on(async {
/// let locks = local().await?.lock_manager("my-app");
/// let guard = locks.lock("db").await?;
/// // No other process of this user that asks for "db" in this bucket gets past here.
/// drop(guard);
/// # Ok::<(), navlock::Error>(())
/// # }).unwrap();
/// ```
///
/// # Errors
///
/// [`Error::Unreachable`], which says what to do about it.
pub async fn local() -> Result<UserAgent, Error> {
    Ok(UserAgent::with_reach(BrokerReach::connect(ConnectOptions::default()).await?))
}

/// As [`local`], for code without an executor: blocks the thread until the broker is reached.
///
/// ```no_run
/// # use navlock::local_blocking;
/// let locks = local_blocking()?.lock_manager("my-app");
/// let guard = locks.lock("db").blocking()?;
/// # Ok::<(), navlock::Error>(())
/// ```
///
/// # Errors
///
/// As [`local`].
pub fn local_blocking() -> Result<UserAgent, Error> {
    block_on(local())
}

/// A user agent whose locks are seen by several users of this machine, through the
/// [machine's broker](Place::of_system). An administrator starts that broker; this call does not. Works on any
/// executor.
///
/// ```no_run
/// # navlock::blocking::block_on(async {
/// let locks = navlock::system().await?.lock_manager("deploy");
/// let guard = locks.lock("production").await?;
/// // No process of any user of the broker's group that asks for "production" in this bucket gets past here.
/// drop(guard);
/// # Ok::<(), navlock::Error>(())
/// # }).unwrap();
/// ```
///
/// # Errors
///
/// [`Error::Unreachable`], if there is no such broker or this user is not in its group.
pub async fn system() -> Result<UserAgent, Error> {
    let options = ConnectOptions::default().place(Place::of_system());
    Ok(UserAgent::with_reach(BrokerReach::connect(options).await?))
}

/// The reach of one machine, through a connection to the user's own broker. Buckets that live elsewhere by the
/// settings have connections of their own, which are made when these buckets are first asked for something; see
/// [`Place::of_bucket`]. What this type itself offers, such as a [lifeline](Self::prepare_lifeline), is of the
/// connection to the user's own broker: whoever needs it of another names that [place](ConnectOptions::place). Clones share the connections. They end when the last clone is gone, and all that was made
/// with the clones.
#[derive(Clone, Debug)]
pub struct BrokerReach {
    /// That to the user's own broker, or to the one that was chosen for all buckets.
    connection: Arc<Connection>,
    /// `None` if no bucket lives with another broker.
    elsewhere: Option<Arc<ByBucket>>,
}

impl BrokerReach {
    /// Connects to the broker, and starts it if it is not there. Works on any executor, because the
    /// connection's own thread does everything that blocks.
    ///
    /// ```no_run
    /// use navlock::{BrokerReach, ConnectOptions};
    /// # use navlock::UserAgent;
    ///
    /// # navlock::blocking::block_on(async {
    /// let reach = BrokerReach::connect(ConnectOptions::default()).await?;
    /// println!("{} clients are connected to the broker", reach.status().await?.numbers.clients);
    /// let locks = UserAgent::with_reach(reach).lock_manager("my-app");
    /// # drop(locks);
    /// # Ok::<(), navlock::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Why there is no connection. No error is final: the next call tries again. Where the settings say of some
    /// buckets that they live elsewhere, the connection is made when it is needed, and the requests of that time have
    /// the error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection, once it is there.
    pub async fn connect(options: ConnectOptions) -> Result<Self, ConnectError> {
        let (place, buckets) = options.find_place()?;
        if !buckets.is_empty() {
            // Perhaps no bucket of the user's own broker is opened.
            return Self::connect_when_needed(options);
        }
        let socket = place.socket().to_owned();
        let failed = |reason| ConnectError { socket, reason };
        // This is a channel of tokio, which needs no runtime.
        let (connected, connection) = oneshot::channel();
        let thread = maintainer_thread(move || match open(place, options, |_| {}) {
            Ok((connection, maintainer)) => {
                // If the caller has dropped the future, nobody has the connection, and the
                // connection ends.
                let _ = connected.send(Ok(connection));
                maintainer.run();
            }
            Err(reason) => {
                let _ = connected.send(Err(reason));
            }
        });
        match thread {
            Ok(()) => match connection.await {
                Ok(Ok(connection)) => Ok(connection.into()),
                Ok(Err(reason)) => Err(failed(reason)),
                Err(_panicked) => Err(failed(Reason::Panicked)),
            },
            Err(reason) => Err(failed(reason)),
        }
    }

    /// Connects as [`connect`](Self::connect) does, but on this thread, which it blocks. The
    /// connection has no thread of its own until it needs one: calls that block read their answers
    /// themselves. This is for programs with one thread that end soon, because to start a thread
    /// takes longer than to be granted a lock.
    ///
    /// A thread is needed, and started, when a future is polled by an executor, when locks end by
    /// themselves, when the broker has ended, and when [`keep`](Self::keep) is called. Until then
    /// nobody reads the connection between two calls: a guard that is asked whether it is lost first
    /// reads what has come, and a caller that wants to be told meanwhile waits for
    /// [`pending_source`](Self::pending_source).
    ///
    /// ```no_run
    /// use navlock::{BrokerReach, ConnectOptions};
    /// # use navlock::UserAgent;
    ///
    /// // The whole of a small command, with one thread.
    /// let reach = BrokerReach::connect_blocking(ConnectOptions::default())?;
    /// let guard = UserAgent::with_reach(reach).lock_manager("my-app").lock("db").blocking()?;
    /// # let work = || {};
    /// work();
    /// if guard.is_lost() {
    ///     eprintln!("the lock was lost meanwhile");
    /// }
    /// # Ok::<(), navlock::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`connect`](Self::connect).
    pub fn connect_blocking(options: ConnectOptions) -> Result<Self, ConnectError> {
        let (place, buckets) = options.find_place()?;
        let socket = place.socket().to_owned();
        match open(place.clone(), options.clone(), Shared::hold_back) {
            Ok((connection, maintainer)) => {
                connection.shared().start_thread_later(|| maintainer.run());
                Ok(Self::with(connection, place, buckets, options))
            }
            Err(reason) => Err(ConnectError { socket, reason }),
        }
    }

    /// A descriptor that becomes readable when something has come on the connection, while no thread reads
    /// it. A caller that waits for other descriptors waits for this one as well, and then calls
    /// [`keep`](Self::keep). `None` if there is a thread, if something has come already, or if a thread is
    /// needed and none could be had. In the last case, the caller should ask each lock now and then
    /// whether it is lost.
    pub fn pending_source(&self) -> Option<impl Source + use<>> {
        self.connection.shared().pending_source()
    }

    /// Reads what the broker has sent until now, even if a thread is about to read it. After this
    /// call, each lock knows whether it is lost, as far as the broker has said so. This is for
    /// callers that also wait for something else, and may have heard of that first.
    pub fn read_pending(&self) {
        self.connection.shared().read_all();
    }

    /// Starts the thread that reads this connection and keeps it, if there is none.
    ///
    /// ```no_run
    /// # use navlock::{BrokerReach, ConnectOptions};
    /// # use navlock::UserAgent;
    /// # let work = || {};
    /// let reach = BrokerReach::connect_blocking(ConnectOptions::default())?;
    /// let locks = UserAgent::with_reach(reach.clone()).lock_manager("my-app");
    /// let guard = locks.lock("db").blocking()?;
    /// // The work takes long, and the lock may be lost meanwhile: a thread reads what the broker says.
    /// reach.keep()?;
    /// work();
    /// # drop(guard);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If this process may have no more threads. The call can be repeated.
    pub fn keep(&self) -> io::Result<()> {
        self.connection.shared().keep()
    }

    /// A connection that the first request makes, in the way of [`connect`](Self::connect). Nobody
    /// waits for the connection: earlier requests are sent, in their order, as soon as the
    /// connection is there. If the connection cannot be made, these requests fail with
    /// [`Error::Unreachable`], and the next request tries again.
    ///
    /// ```no_run
    /// use navlock::{BrokerReach, ConnectOptions};
    /// # use navlock::UserAgent;
    ///
    /// // A program that may never need a lock starts no broker before it does.
    /// let reach = BrokerReach::connect_when_needed(ConnectOptions::default())?;
    /// let locks = UserAgent::with_reach(reach).lock_manager("my-app");
    /// let guard = locks.lock("db").blocking()?; // connects
    /// # drop(guard);
    /// # Ok::<(), navlock::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If this process may have no more threads or descriptors.
    pub fn connect_when_needed(options: ConnectOptions) -> Result<Self, ConnectError> {
        let (place, buckets) = options.find_place()?;
        let connection = connect_when_needed(place.clone(), options.clone())?;
        Ok(Self::with(connection, place, buckets, options))
    }

    /// The reach with this connection to the user's own broker.
    fn with(connection: Connection, own: Place, buckets: Buckets, options: ConnectOptions) -> Self {
        let is_all = buckets.is_empty();
        let elsewhere = (!is_all).then(|| Arc::new(ByBucket::new(own, buckets, options)));
        Self { connection: Arc::new(connection), elsewhere }
    }

    /// Takes room for a [`Lifeline`], by which programs will inherit locks of these names.
    ///
    /// # Errors
    ///
    /// If the broker's directory has no room for the lifeline, or cannot be written to.
    pub fn prepare_lifeline(&self, names: &[ResourceName]) -> io::Result<PreparedLifeline> {
        PreparedLifeline::new(&self.connection, names)
    }

    /// How many names this connection owns now. It takes and releases owned names without asking
    /// the broker, until somebody else asks for them. See [`ConnectOptions::delegate`].
    pub fn owned(&self) -> usize {
        let shared = self.connection.shared();
        if shared.is_forked() { 0 } else { shared.owned.slots().count() }
    }

    /// The daemon's status.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`].
    pub async fn status(&self) -> Result<Status, Error> {
        let answer =
            query::Answer::ask(&self.connection, |query| ToDaemon::Status { query }).await?;
        let other =
            || Unreachable::new(UnreachableKind::Protocol, "the broker answered another question");
        answer.status.ok_or_else(|| other().into())
    }
}

impl From<Connection> for BrokerReach {
    fn from(connection: Connection) -> Self {
        Self { connection: Arc::new(connection), elsewhere: None }
    }
}

impl Reach for BrokerReach {
    fn open_bucket(&self, name: &str) -> Box<dyn Backend> {
        let found =
            self.elsewhere.as_ref().map_or(Ok(None), |elsewhere| elsewhere.connection(name));
        let own = || Arc::clone(&self.connection);
        Box::new(match found {
            Ok(found) => BrokerBackend::new(found.unwrap_or_else(own), name),
            Err(error) => BrokerBackend::unreachable(own(), name, error.into()),
        })
    }

    /// Looks through a connection of its own, which is no client, at the broker of the bucket that is looked at.
    fn look(&self, options: &LookOptions) -> Option<Box<dyn Looking>> {
        let place = self.elsewhere.as_ref().zip(options.bucket.as_deref());
        let place = place.map(|(elsewhere, bucket)| elsewhere.place_of(bucket));
        let place = place.unwrap_or_else(|| Place::at(&self.connection.shared().path));
        Some(Box::new(Look::new(place, options.clone())))
    }
}
