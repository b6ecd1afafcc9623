//! The reach of one machine: a daemon that keeps the locks of all processes of a user, and the
//! client that makes it a [`Reach`](navlock_core::host::Reach).
//!
//! This is not the crate to lock something with: `navlock` is; with its feature `local` it gives
//! out what [`local`] here does.
//!
//! The [`daemon`] is an adapter from a socket to a `UserAgent`; the [`client`] is an adapter from
//! the backend seam to a socket. Neither knows what a lock is: that is the engine's.
//!
//! - A client that finds no daemon starts one; the daemon ends when nobody has needed it for 30
//!   seconds. See [`Place`] for where they meet.
//! - When a client dies, the kernel closes its connection, and what it held and waited for is free
//!   at once. There are no files, pids or heartbeats to go stale.
//! - When the daemon dies, its clients start a new one and claim what they had: nothing is lost, and
//!   nobody is overtaken.

#![forbid(unsafe_code)]

pub mod client;
mod client_files;
mod clock;
pub mod daemon;
mod descriptors;
mod error;
mod forms;
mod lock_file;
mod runtime_dir;
mod seclusion;
pub mod settings;
mod spawn;
mod status;
mod system_error;
mod testament;
mod this_process;

pub use crate::{
    client::{
        BrokerReach, ConnectOptions, Control, Lifeline, PreparedLifeline, Stopped, local, stop,
    },
    error::{ConnectError, Reason},
    runtime_dir::{Place, PlaceError},
    status::Status,
    system_error::SystemError,
    this_process::this_process,
};

/// For how long a new daemon waits for the clients of the one before.
const RECLAIM: std::time::Duration = std::time::Duration::from_secs(10);
