//! Several machines on one PostgreSQL, and what can happen to it: each machine is a connection of its own, and knows
//! nothing of the others.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod bloat;
mod crashes;
mod pooled;
mod proxy;
#[path = "../server/mod.rs"]
mod server;

// What is the same on etcd.
#[path = "../../../etcd/tests/machines/asking.rs"]
mod asking;
#[path = "../../../etcd/tests/machines/fenced.rs"]
mod fenced;
#[path = "../../../etcd/tests/machines/given_up.rs"]
mod given_up;
#[path = "../../../etcd/tests/machines/owning.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod owning;
#[path = "../../../etcd/tests/machines/paused.rs"]
mod paused;
#[path = "../../../etcd/tests/machines/process.rs"]
mod process;
#[path = "../../../etcd/tests/machines/reclaim.rs"]
mod reclaim;
#[path = "../../../etcd/tests/machines/register.rs"]
mod register;
#[path = "../../../etcd/tests/machines/sharing.rs"]
mod sharing;
#[path = "../../../etcd/tests/machines/witness.rs"]
mod witness;

use navlock_core::LockManager;
use navlock_postgres::PostgresOptions;

use crate::{
    asking::{exclusive, settle, soon, state, until_waiting},
    server::{connect, shared},
};

/// Machines that share a schema, and the agent of each in one bucket.
fn machines<const N: usize>() -> [LockManager; N] {
    machines_with(&shared().fresh())
}

/// Machines with these options.
fn machines_with<const N: usize>(options: &PostgresOptions) -> [LockManager; N] {
    std::array::from_fn(|_| connect(options).lock_manager("bucket"))
}
