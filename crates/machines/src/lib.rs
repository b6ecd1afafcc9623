//! What navlock's reaches between machines share, whatever store they meet in.
//!
//! This is not the crate to lock something with: use `navlock`. A reach between machines lets machines share
//! locks by a store of keys that all of them can use. This crate knows no store. It has what callers use
//! ([`MachinesReach`](reach::MachinesReach)), and decides what is put into keys and what is done next. A store implements
//! [`KeyStore`](key_store::KeyStore), which is the whole seam: transactions, lists, leases and watches.
//!
//! # Logs
//!
//! It logs by [`tracing`], with the target `navlock::machines`, and without names of locks.
//!
//! | level | what |
//! |---|---|
//! | error | the store has lost its data |
//! | warn | locks that are lost |
//!
//! Read on: `ARCHITECTURE.md` beside this crate.

#![forbid(unsafe_code)]

/// The target of the log messages of this crate ([`tracing`]).
const LOGS: &str = "navlock::machines";

/// What the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod backend;
mod bucket;
pub mod call_failure;
pub mod clock;
mod connection;
pub mod credentials;
pub mod data;
mod driver;
mod ended;
pub mod eviction;
mod failure;
mod hash;
mod keeper;
pub mod key_store;
pub mod keys;
pub mod lease;
mod leases;
mod left;
mod listed;
pub mod load;
mod messages;
mod mirror;
mod names;
mod notes;
mod query;
pub mod reach;
mod shared;
mod silence;
mod slots;
pub mod strays;
mod table;
pub mod thread;
pub mod times;
mod tokens;
mod transactions;
mod values;
mod view;
pub mod watched;
