//! The reach of many machines: locks that all share who use one etcd.
//!
//! This is not the crate to lock something with: `navlock` is; with its feature `etcd` it gives out
//! what [`etcd`] here does. Nor is it etcd's own lock service, which tells a waiter whose lease has
//! ended that it holds the lock (etcd issue 11456).
//!
//! ```no_run
//! use navlock_core::{Error, blocking::block_on};
//! use navlock_etcd::{EtcdOptions, etcd};
//!
//! let user_agent = block_on(etcd(EtcdOptions::new(["10.0.0.1:2379", "10.0.0.2:2379"])))?;
//! let locks = user_agent.lock_manager("my-app");
//! let guard = locks.lock("db").blocking()?;
//! // What is written under the lock carries this number, and who stores it refuses smaller ones.
//! let token = guard.fencing_token();
//! # Ok::<(), Error>(())
//! ```
//!
//! # What holds
//!
//! Etcd orders the requests of all machines; each grant is one transaction, and its revision is the
//! fencing token, but for names that a connection [keeps](EtcdOptions::keep_names), which it grants by itself
//! and counts within the revision in which they became its own. A connection has a lease. All that its agents
//! have ends with that, and so do the names that it keeps: when its process ends, when its machine dies, when it
//! is cut off. What one agent has ends with that agent, by transactions of the connection. Whoever cannot keep
//! its lease is told [`Lost::Disconnected`](navlock_core::Lost::Disconnected) a fifth of the time to live (two
//! seconds at most) before etcd gives its locks to others, by a clock that counts the time in which the machine
//! was suspended. Until then names that the connection keeps are granted further, also while etcd does not
//! answer; other names are not granted while it does not, or is full.
//!
//! What can still go wrong: a process that is stopped between looking at its lock and writing does
//! not know that time has passed. Only the fencing token helps there.
//!
//! # Who asks another connection
//!
//! Who holds a name that a connection keeps, that connection alone knows. So whoever else wants the name has it
//! asked. Where it does not answer within 2.5 s, or half of the time to live if that is less,
//!
//! - a request with `if_available` is told that the lock cannot be had, and the next ones are told so at once, as
//!   long as that connection is silent;
//! - a theft takes the name all the same, and that connection may grant it, with smaller tokens, until it hears
//!   of the theft;
//! - a query, or an inspection, has that connection in the holder's place.
//!
//! A request that waits goes on waiting, until the name is given up or that connection's lease is over.
//!
//! # Several clusters
//!
//! What one etcd can write in a second is the end of what one etcd can do. Beyond that, [`EtcdClusters`] has
//! several share the names: each lock is on one of them, which all machines find by its name alone.
//!
//! # What etcd needs
//!
//! Version 3.4 or newer, and to be compacted now and then (`--auto-compaction-retention`), as any
//! etcd that is written to: it keeps each change until then. Keys are used again, so that a name
//! which is taken and released all day does not become slower by it.
//!
//! # Features
//!
//! | feature | adds | needs to build |
//! |---|---|---|
//! | `tls` | `https://` endpoints | a C compiler |
//!
//! What happens to the connection, to leases and to etcd itself is told by [`tracing`], with the target
//! `navlock::etcd`: at error that etcd has lost its data; at warn what did not answer, and locks that are
//! lost; at info what answers again; at debug leases and watches. No name of a lock is told.
//!
//! Read on: `keys.rs` says what stands in etcd, `transactions.rs` what is done to it.

#![forbid(unsafe_code)]

/// What the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod backend;
mod bucket;
mod calls;
mod clock;
mod clusters;
mod connection;
mod data;
mod ended;
mod failure;
mod formats;
mod hash;
mod health;
mod hint;
mod keep_alive;
mod keeper;
mod keys;
mod lease;
mod left;
mod members;
mod mirror;
mod options;
mod query;
mod reach;
mod silence;
mod slots;
mod strays;
mod table;
mod thread;
mod tokens;
mod transactions;
mod values;
mod view;
mod watch;

pub use crate::{
    clusters::{ClustersReach, EtcdClusters, etcd_clusters},
    health::{EndpointHealth, Health, Member, check, check_alone},
    options::{Credentials, EtcdOptions},
    reach::{EtcdReach, etcd},
    strays::{Blocked, Evict, Stray, evict, strays},
};

/// The target of what is told by [`tracing`].
const LOGS: &str = "navlock::etcd";
