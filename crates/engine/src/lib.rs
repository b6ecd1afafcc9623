//! The algorithms of the [Web Locks API][spec] as a state machine without input or output.
//!
//! A [`LockManager`] holds the state of one bucket: the held lock set and the lock request queue
//! of every name. It takes commands and gives events. It has no clock, no threads, no futures and
//! no sockets. So one set of algorithms serves a process, a machine and a cluster, and a test can
//! replay any history.
//!
//! This is not the crate to lock something with: `navlock` is. This one is for those who build a
//! host around the algorithms.
//!
//! ```
//! use navlock_engine::{AgentId, Event, LockManager, Mode, RequestKind, ResourceName};
//!
//! let mut locks = LockManager::default();
//! let db = ResourceName::try_from("db")?;
//! let (alice, bob) = (AgentId::from_index(0), AgentId::from_index(1));
//!
//! let first = locks.request_lock(alice, &db, RequestKind::Wait(Mode::Exclusive));
//! let second = locks.request_lock(bob, &db, RequestKind::Wait(Mode::Exclusive));
//! assert_eq!(locks.poll_event(), Some(Event::Granted(first)));
//! assert_eq!(locks.poll_event(), None);
//!
//! locks.finish(first);
//! assert_eq!(locks.poll_event(), Some(Event::Granted(second)));
//! # Ok::<(), navlock_engine::ReservedName>(())
//! ```
//!
//! Read on at [`LockManager`], which gives the calling order. Each algorithm of the specification
//! is one function in `algorithms/`, its steps numbered beside the code. Four words mark the steps
//! that the code does not take as they are written:
//!
//! - `HOST:` the caller does the step;
//! - `BY TYPE:` the type system does it;
//! - `FAST:` an optimisation, and why it is equivalent;
//! - `DEVIATION:` a difference, which CONFORMANCE.md lists too.
//!
//! Beyond the specification, each lock gets a [`FencingToken`] when it is granted: `held.rs` makes
//! it.
//!
//! With the feature `serde`, names, modes, ids and tokens are written and read by serde.
//!
//! [spec]: https://www.w3.org/TR/2025/WD-web-locks-20250924/

#![forbid(unsafe_code)]

/// What the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod agent;
mod agents;
mod algorithms;
mod event;
mod hash;
mod held;
mod links;
mod list;
mod manager;
mod mode;
mod name;
mod nodes;
mod queue;
mod request;
mod resource;

pub use crate::{
    agent::AgentId,
    algorithms::{
        request::Outcome,
        snapshot::{EntryRef, QueuePosition},
    },
    event::Event,
    hash::{HashedName, NameHasher},
    manager::LockManager,
    mode::Mode,
    name::{InvalidName, ReservedName, ResourceName},
    request::{FencingToken, Patience, RequestId, RequestKind, Status},
};
