//! What navlock's own tests share.
//!
//! [`Model`] is the specification once more, as plain as it can be written and as slow as that
//! makes it: the oracle to which the engine is compared. A [`Command`] is one thing that can
//! happen to a lock manager, and a [`Comparison`] lets a sequence of them happen to both, and says where
//! they part. [`suite`] is what every reach must do, told through the public API. A [`Port`] is one for
//! a [`Server`] that a test starts, as it does etcd.
//!
//! Nothing here is published, and nothing that is published depends on it, except in its tests.
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
