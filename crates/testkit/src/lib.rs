//! What navlock's own tests have in common.
//!
//! [`Model`] is the specification once more, written as plainly as possible and therefore slow. The
//! engine is compared with it. A [`Command`] is one thing that can happen to a lock manager. A
//! [`Comparison`] applies a sequence of commands to both, and reports where they differ. [`suite`]
//! has the tests that every reach must pass, written against the public API. A [`Port`] is a port
//! for a [`Server`] that a test starts, such as etcd.
//!
//! This crate is not published. Published crates depend on it only in their tests. It has no features.
//!
//! ```
//! use navlock_engine::{AgentId, Mode, RequestKind, ResourceName};
//! use navlock_testkit::{Command, Comparison};
//!
//! let db = ResourceName::try_from("db")?;
//! let request = |label| Command::Request {
//!     label,
//!     agent: AgentId::from_index(0),
//!     name: db.clone(),
//!     kind: RequestKind::Wait(Mode::Exclusive),
//! };
//! let mut comparison = Comparison::default();
//! for command in [request(1), request(2), Command::Finish(1), Command::Abort(2)] {
//!     comparison.apply(&command)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod command;
mod comparison;
mod model;
#[cfg(not(target_arch = "wasm32"))]
mod port;
#[cfg(not(target_arch = "wasm32"))]
mod server;
pub mod suite;

pub use crate::{
    command::Command,
    comparison::{Comparison, Divergence},
    model::Model,
};
#[cfg(not(target_arch = "wasm32"))]
pub use crate::{
    port::Port,
    server::{Failed, Server, Start},
};

/// The example of the book, which is tested with that of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/implementers.md")]
mod implementers {}
