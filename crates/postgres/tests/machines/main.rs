//! Several machines on one PostgreSQL, and what can happen to it: each machine is a connection of its own, and knows
//! nothing of the others.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod crashes;
mod pooled;
#[path = "../server/mod.rs"]
mod server;

// What is the same on etcd.
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
#[path = "../../../etcd/tests/machines/register.rs"]
mod register;
#[path = "../../../etcd/tests/machines/sharing.rs"]
mod sharing;
#[path = "../../../etcd/tests/machines/witness.rs"]
mod witness;

use std::{
    thread,
    time::{Duration, Instant},
};

use navlock_core::{LockGuard, LockManager, Mode, blocking::block_on_timeout};
use navlock_postgres::PostgresOptions;

use crate::server::{DEADLINE, connect, shared};

/// Machines that share a schema, and the agent of each in one bucket.
fn machines<const N: usize>() -> [LockManager; N] {
    machines_with(&shared().fresh())
}

/// Machines with these options.
fn machines_with<const N: usize>(options: &PostgresOptions) -> [LockManager; N] {
    std::array::from_fn(|_| connect(options).lock_manager("bucket"))
}

/// The future's output, or a failed test if it takes too long.
#[track_caller]
fn soon<T>(future: impl IntoFuture<Output = T>) -> T {
    block_on_timeout(future, DEADLINE).expect("it comes to an end")
}

#[track_caller]
fn exclusive(locks: &LockManager, name: &str) -> LockGuard {
    soon(locks.lock(name)).expect("it is granted")
}

/// What is held and what waits, by mode, as this machine sees it.
#[track_caller]
fn state(locks: &LockManager) -> (Vec<Mode>, Vec<Mode>) {
    let state = soon(locks.query()).expect("the bucket can be queried");
    let modes = |found: Vec<navlock_core::LockInfo>| found.iter().map(|info| info.mode).collect();
    (modes(state.held), modes(state.pending))
}

/// Waits until the store knows what this machine has released.
#[track_caller]
fn settle(locks: &LockManager) {
    state(locks);
}

/// Waits until so many wait.
#[track_caller]
fn until_waiting(locks: &LockManager, count: usize) {
    let since = Instant::now();
    while state(locks).1.len() != count {
        assert!(since.elapsed() < DEADLINE, "{count} never wait");
        thread::sleep(Duration::from_millis(1));
    }
}
