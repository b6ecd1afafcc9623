//! Several machines on one etcd, and what can happen to them: each machine is a connection of its
//! own, and knows nothing of the others.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod cluster;
mod deaf;
mod faults;
mod fenced;
mod formats;
mod frames;
mod given_up;
mod leases;
mod looks;
mod members;
mod outages;
mod owned;
mod owners_end;
mod owning;
mod paused;
mod process;
mod proxy;
mod queries;
mod reclaim;
mod register;
mod reset;
mod runs;
#[path = "../server/mod.rs"]
mod server;
mod sharing;
mod stalls;
mod strays;
mod stress;
mod usage;
mod users;
mod witness;

use std::time::{Duration, Instant};

use navlock_core::{LockGuard, LockManager, Mode, UserAgent, blocking::block_on_timeout};

use crate::server::{DEADLINE, connect, options};

/// Machines that share a namespace, and the agent of each in one bucket.
fn machines<const N: usize>() -> [LockManager; N] {
    let namespace = server::namespace();
    let machine = |_| connect(&options(&server::shared().endpoint(), &namespace));
    std::array::from_fn(machine).map(|machine: UserAgent| machine.lock_manager("bucket"))
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
        std::thread::sleep(Duration::from_millis(1));
    }
}
