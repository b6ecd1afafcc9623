//! The reach of one machine: a daemon that keeps the locks of all processes of a user, and the
//! client that makes it a [`Reach`](navlock_core::host::Reach).
//!
//! This is not the crate to lock something with: use `navlock`, whose feature `local` re-exports
//! [`local`]. It is also no server for other users or machines: the daemon serves one user on one
//! machine, unless it is given another reach to serve.
//!
//! ```no_run
//! use navlock::blocking::block_on;
//!
//! let locks = block_on(navlock::local())?.lock_manager("my-app");
//! let guard = locks.lock("db").blocking()?;
//! // No other process of this user that asks for "db" in this bucket gets past here.
//! drop(guard);
//! # Ok::<(), navlock::Error>(())
//! ```
//!
//! The [`daemon`] is an adapter from a socket to a `UserAgent`; the [`client`] is an adapter from
//! the backend seam to a socket. Neither knows the rules of locks: the engine does.
//!
//! - A client that finds no daemon starts one. The daemon ends after 30 seconds without a client.
//!   [`Place`] says where they meet.
//! - When a client dies, the kernel closes its connection, and the daemon ends the agents of the client. There
//!   are no pids or heartbeats to go stale.
//! - When the daemon dies, its clients start a new one and claim what they had: no lock is lost, and
//!   nobody is overtaken.
//!
//! The feature `carried` adds [`serve_if_asked`], by which a program is its own broker.
//!
//! # Logs
//!
//! Daemons and clients log by [`tracing`]. The program brings the subscriber. The target of a daemon is
//! [`LOGS`], that of its clients is [`CLIENT_LOGS`], and those of locks that etcd keeps are
//! `navlock::etcd`, `navlock::postgres` and `navlock::machines`.
//!
//! | level | what |
//! |---|---|
//! | error | a panic; a promise that could not be kept |
//! | warn | a client broke the protocol, or was given up; files have been removed; no broker can be reached |
//! | info | a broker begins or ends; what it takes over; a lock is lost |
//! | debug | sessions; names of locks, where they are of use |
//! | trace | each request, grant and release, with its name |
//!
//! Above debug there are no names, buckets, commands or reasons, unless
//! [`Options::log_names`](daemon::Options::log_names) asks for names. A request, a grant and a release
//! are logged at trace alone, and only where they are messages: a lock that is taken without a message
//! is not logged.

#![forbid(unsafe_code)]

/// What the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod buckets;
#[cfg(feature = "carried")]
mod carried;
pub mod client;
mod client_files;
mod clock;
mod connect_error;
mod convert;
pub mod daemon;
mod deadline;
mod inherited_claims;
mod lock_file;
mod place;
mod private_tmp;
mod project;
mod settings_error;
mod settings_file;
pub mod settings_files;
mod spawn;
mod surrounding;
mod sync;
mod system_error;
mod this_process;
mod timed_work;

#[cfg(feature = "carried")]
pub use crate::carried::{serve_by, serve_if_asked};
pub use navlock_core::look::{LookOptions, News};
pub use navlock_platform::thread::lower_thread_priority;
pub use navlock_wire::{
    CodecError, LogState, MAX_META, MAX_TEXT, NotStolen, Numbers, SessionEnd, Status, Waits,
};

pub use crate::{
    client::{
        BrokerReach, ConnectOptions, Control, Lifeline, Look, PreparedLifeline, Stopped, local,
        local_blocking, stop, system,
    },
    connect_error::{ConnectError, Reason},
    place::{Place, PlaceError},
    project::Project,
    settings_error::SettingsError,
    settings_file::SettingsFile,
    spawn::stopped_broker,
    surrounding::{
        VARIABLE as INSIDE_VARIABLE, is_around, runs_under, surrounding, told_to_command,
    },
    system_error::SystemError,
    this_process::{LONGEST_COMMAND, pid_namespace, this_client, this_process},
    timed_work::within,
};

/// The target of what a daemon logs by [`tracing`].
pub const LOGS: &str = "navlock::broker";

/// The target of what clients log of their connections.
pub const CLIENT_LOGS: &str = "navlock::client";
