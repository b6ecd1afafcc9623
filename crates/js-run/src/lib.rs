#![doc = include_str!("../../../docs/embedding.md")]
//!
//! This library is only that guide: its programs run as tests. The runtime itself is the program
//! beside this library.

/// The examples of the README, which are tested with those of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}
