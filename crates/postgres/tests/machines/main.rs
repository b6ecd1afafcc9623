//! Several machines on one PostgreSQL, and what can happen to it: each machine is a connection of its own, and knows
//! nothing of the others.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod crashes;
mod pooled;
#[path = "../server/mod.rs"]
mod server;
#[path = "../../../etcd/tests/machines/witness.rs"]
mod witness;

use navlock_core::{LockGuard, LockManager, blocking::block_on_timeout};
use navlock_postgres::PostgresOptions;

use crate::server::{DEADLINE, connect};

/// Machines with these options, and the agent of each in one bucket.
fn machines<const N: usize>(options: &PostgresOptions) -> [LockManager; N] {
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

/// Waits until so many requests wait.
#[track_caller]
fn until_waiting(locks: &LockManager, count: usize) {
    let since = std::time::Instant::now();
    while soon(locks.query()).map_or(true, |seen| seen.pending.len() != count) {
        assert!(since.elapsed() < DEADLINE, "{:?}", soon(locks.query()));
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
