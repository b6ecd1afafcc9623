//! Agents, handles and guards, and the [`Backend`](host::Backend) seam beneath them, with its
//! in-memory implementation.
//!
//! Above this crate are the faces of navlock: the APIs for Rust and for JavaScript, and the command
//! line. Below it are the reaches. A reach decides how far a lock is seen: by one process, by one
//! machine, by many machines, or by the pages of a browser.
//!
//! This is not the crate to lock something with: use `navlock`, which re-exports everything that is
//! public here. This crate is for authors of a new reach, who implement [`Backend`](host::Backend) and
//! [`Reach`](host::Reach), and of a new face, such as another language. The module [`host`] has what only
//! these authors need.
//!
//! ```
//! use navlock::{UserAgent, blocking::block_on};
//!
//! let locks = UserAgent::in_process().bucket("my-app").lock_manager();
//! let sum = block_on(locks.request("db", async |_lock| 1 + 1))?;
//! assert_eq!(sum, 2);
//! # Ok::<(), navlock::Error>(())
//! ```
//!
//! From the outside in: a [`UserAgent`] owns [`Bucket`]s; a bucket gives out [`LockManager`]
//! handles, each for a new agent; a handle makes requests; a granted request is a [`LockGuard`].
//!
//! | feature | adds | default |
//! |---|---|---|
//! | `metrics` | waits and holds are measured through the crate of that name | no |
//! | `serde` | [`LockManagerSnapshot`] is written and read in the specification's shape; what else messages contain, by serde's rules | no |

#![forbid(unsafe_code)]

/// What the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(all(feature = "metrics", target_arch = "wasm32", target_os = "unknown"))]
compile_error!("the feature `metrics` needs a clock, and wasm32-unknown-unknown has none");

mod agent;
mod agent_ref;
mod agent_state;
mod backend;
pub mod blocking;
mod bucket;
mod buckets;
mod client_id;
mod clip;
mod elapsed;
mod environment;
mod error;
mod further;
mod guard;
mod guard_cache;
mod held_lock;
mod holding;
pub mod host;
mod inside;
mod inspect;
mod json;
mod lock;
mod lock_all;
pub mod look;
mod manager;
mod measure;
mod options;
mod printable;
mod refusal;
mod request;
mod snapshot;
mod sync;
mod thread_group;
mod unreachable;
mod unwind;
mod user_agent;
mod waking;
mod watch;

pub use navlock_engine::{FencingToken, InvalidName, Mode, ReservedName, ResourceName};

#[cfg(feature = "metrics")]
pub use crate::measure::on::describe_metrics;
pub use crate::{
    bucket::Bucket,
    client_id::ClientId,
    error::{Error, Lost},
    guard::{LockGuard, LockState, LostFuture},
    inspect::{AgentInfo, Inspected, Inspection, Position},
    lock::Lock,
    lock_all::{
        FailedName, GrantAll, LockAllError, LockAllFuture, LockAllRequest, LockAnyFuture,
        LockAnyRequest,
    },
    manager::LockManager,
    options::LockOptions,
    refusal::Refusal,
    request::{Grant, LockFuture, LockRequest, Named, NestedRequest},
    snapshot::{LockInfo, LockManagerSnapshot},
    unreachable::{Unreachable, UnreachableKind},
    user_agent::UserAgent,
};
