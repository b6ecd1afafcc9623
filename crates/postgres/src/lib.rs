//! The reach of many machines: locks that are shared by all machines that use one PostgreSQL.
//!
//! This is not the crate to lock something with: use `navlock`, whose feature `postgres` re-exports
//! [`postgres`].
//!
//! ```no_run
//! use navlock::{Error, PostgresOptions, blocking::block_on, postgres};
//!
//! let user_agent = block_on(postgres(PostgresOptions::new("postgres://ci@db.example.org/navlock")))?;
//! let locks = user_agent.lock_manager("my-app");
//! let guard = locks.lock("db").blocking()?;
//! // Send this number with each write under the lock. The store refuses a smaller one.
//! let token = guard.fencing_token();
//! # Ok::<(), Error>(())
//! ```
//!
//! # What holds
//!
//! The database runs the transactions of all machines one after the other, and each grant is one. A connection has a
//! lease, with which the locks and requests of its agents end. Nothing that a lock writes is flushed to a disk. After a
//! crash of the server, or the promotion of a replica, each machine puts back what it holds, and nothing is granted until all have,
//! or their leases are over. So a crash costs a pause, and no lock of a machine that goes on within its time to
//! live.
//!
//! No clock is compared. A connection that cannot keep its lease tells its holders
//! [`Lost::Disconnected`](navlock_core::Lost::Disconnected), a fifth of the time to live (two seconds at most) before
//! others may be granted their locks.
//!
//! # What PostgreSQL needs
//!
//! PostgreSQL must have version 15 or newer, and navlock be [set up](init) in it. A pooler may give each transaction
//! another session ([`PostgresOptions::listen_url`]).
//!
//! # Logs
//!
//! The connection logs by [`tracing`], with the targets `navlock::postgres` and `navlock::machines`, and without names
//! of locks.
//!
//! Read on: `schema.sql` says what stands in the database.

#![forbid(unsafe_code)]

/// What the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod connection;
mod evict;
mod failures;
mod health;
mod keeping;
mod kept;
mod listening;
mod messages;
mod options;
mod postgres;
mod reach;
mod recovering;
mod schema;
mod servers;
mod store;
#[cfg(feature = "tls")]
mod tls;
mod trust;
mod watching;

pub use crate::{
    evict::evict,
    health::{Calls, Health, check, machines},
    options::PostgresOptions,
    postgres::Postgres,
    reach::{PostgresReach, postgres},
    schema::{init, remove, schema},
};
pub use navlock_machines::{
    credentials::{CredentialSource, Credentials},
    eviction::Evict,
};

/// What the store is called in messages to people.
const STORE: &str = "PostgreSQL";

/// The target of the log messages of this crate ([`tracing`]).
const LOGS: &str = "navlock::postgres";
