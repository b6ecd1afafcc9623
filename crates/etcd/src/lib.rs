//! The reach of many machines: locks that are shared by all machines that use one etcd.
//!
//! This is not the crate to lock something with: use `navlock`, whose feature `etcd` re-exports
//! [`etcd`]. Nor is it etcd's own lock service, which tells a waiter whose lease has ended that the
//! waiter holds the lock (etcd issue 11456).
//!
//! ```no_run
//! use navlock::{Error, blocking::block_on};
//! use navlock::{EtcdOptions, etcd};
//!
//! let user_agent = block_on(etcd(EtcdOptions::new(["10.0.0.1:2379", "10.0.0.2:2379"])))?;
//! let locks = user_agent.lock_manager("my-app");
//! let guard = locks.lock("db").blocking()?;
//! // Send this number with each write under the lock. The store refuses a smaller one.
//! let token = guard.fencing_token();
//! # Ok::<(), Error>(())
//! ```
//!
//! # What holds
//!
//! Etcd orders the requests of all machines. Each grant is one transaction, and its revision is the
//! fencing token. Names that a connection [owns](EtcdOptions::keep_names) are the exception: the
//! connection grants them itself, and counts their tokens within the revision in which they became its
//! own.
//!
//! A connection has a lease. The locks and requests of its agents, and the names that it owns, end with
//! the lease: when its process ends, when its machine dies, and when the machine is cut off. When one
//! agent ends, transactions of the connection end what the agent has.
//!
//! A connection that cannot keep its lease tells its holders
//! [`Lost::Disconnected`](navlock_core::Lost::Disconnected), a fifth of the time to live (two seconds at
//! most) before etcd gives their locks to others. Its clock also counts the time in which the machine was
//! suspended. Until that moment, the connection goes on granting the names that it owns. Other names are
//! not granted while etcd does not answer, or is full.
//!
//! One thing can still go wrong. A process may be stopped after it has checked its lock and before
//! its write. It does not know that time has passed. Only the fencing token helps in this case.
//!
//! # Who asks another connection
//!
//! Only the connection that owns a name knows who holds the name. Another connection that wants the name
//! asks it, and then has the name or a place in its queue. A request with `if_available` leaves the name
//! with a connection whose locks keep the request out. If the connection that owns the name does not answer
//! within 2.5 s (or within half of the time to live, if that is less),
//!
//! - a request with `if_available` is told that the lock cannot be had; later ones are told this at once,
//!   as long as that connection is silent;
//! - a query or an inspection shows that connection in place of the holder.
//!
//! A request that waits, and a theft, go on waiting until the name is given up, or the lease of that
//! connection is over.
//!
//! # What etcd needs
//!
//! Etcd must have version 3.4 or newer. It keeps each change until it is compacted. So it must be
//! compacted now and then (`--auto-compaction-retention`), like any etcd that is written to. Keys are
//! used again, so a name that is taken and released all day does not become slower.
//!
//! # Features
//!
//! | feature | adds | needs to build |
//! |---|---|---|
//! | `tls` | `https://` endpoints | a C compiler |
//!
//! # Logs
//!
//! The connection logs by [`tracing`], without names of locks. The target of what etcd does and does not do is
//! `navlock::etcd`, and that of what becomes of locks is `navlock::machines`, as for other stores.
//!
//! | level | `navlock::etcd` | `navlock::machines` |
//! |---|---|---|
//! | error | | etcd has lost its data |
//! | warn | what did not answer | locks that are lost |
//! | info | what answers again | |
//! | debug | leases and watches | |
//!
//! Read on: `keys.rs` in `navlock-machines` says what stands in etcd, and `transactions.rs` how it changes.

#![forbid(unsafe_code)]

/// What the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod calls;
mod formats;
mod health;
mod hint;
mod keep_alive;
mod mailbox;
mod members;
mod options;
mod reach;
mod store;
mod strays;
mod watch;

use navlock_machines::{
    call_failure, clock, credentials, data, key_store, keys, lease, load, watched,
};

pub use crate::{
    health::{EndpointHealth, Health, Member, check},
    options::EtcdOptions,
    reach::{EtcdReach, etcd},
    strays::{evict, strays},
};
pub use navlock_machines::{
    credentials::{CredentialSource, Credentials},
    eviction::Evict,
    strays::{Blocked, Stray},
};

/// What the store is called in messages to people.
const STORE: &str = "etcd";

/// The target of the log messages of this crate ([`tracing`]).
const LOGS: &str = "navlock::etcd";
