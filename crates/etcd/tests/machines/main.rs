//! Several machines on one etcd, and what can happen to them: each machine is a connection of its
//! own, and knows nothing of the others.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod asking;
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

use navlock_core::{LockManager, UserAgent};

use crate::{
    asking::{exclusive, settle, soon, state, until_waiting},
    server::{connect, options},
};

/// Machines that share a namespace, and the agent of each in one bucket.
fn machines<const N: usize>() -> [LockManager; N] {
    let namespace = server::namespace();
    let machine = |_| connect(&options(&server::shared().endpoint(), &namespace));
    std::array::from_fn(machine).map(|machine: UserAgent| machine.lock_manager("bucket"))
}
