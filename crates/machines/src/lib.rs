//! What navlock's reaches between machines share, whatever store they meet in.
//!
//! This is not the crate to lock something with: use `navlock`. A reach between machines lets machines share
//! locks by a store that all of them can use. This crate knows no store. It has the table of agents, requests and
//! locks that callers see, and the terms of leases.
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

pub mod clock;
pub mod failure;
pub mod hash;
pub mod lease;
pub mod names;
pub mod notes;
pub mod table;
pub mod tokens;
