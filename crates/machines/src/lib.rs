//! What navlock's reaches between machines share, whatever store they meet in.
//!
//! This is not the crate to lock something with: use `navlock`. A reach between machines lets machines share
//! locks by a store that all of them can use. This crate knows no store. It has what callers use
//! ([`MachinesReach`](reach::MachinesReach)), the table of what they see, the thread that speaks to the store, and
//! [who is under which lease](leases::Leases), for how long. A store implements [`Store`](store::Store), which is the
//! whole seam, and uses the table and the leases.
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `simulated` | for tests that simulate a store: a clock that the test sets, and hashes that are the same in each run |
//!
//! Read on: `ARCHITECTURE.md` beside this crate.

#![forbid(unsafe_code)]

/// What the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod backend;
pub mod call_failure;
pub mod clock;
mod connection;
pub mod data;
pub mod failure;
pub mod hash;
pub mod key_store;
pub mod keys;
pub mod lease;
pub mod leases;
pub mod load;
pub mod messages;
pub mod names;
pub mod notes;
pub mod query;
pub mod reach;
pub mod store;
pub mod table;
pub mod thread;
pub mod times;
pub mod tokens;
pub mod watched;
