//! What programs see of each other through one daemon. The daemon runs in this process; its
//! clients reach it by its socket, as they would reach any.
//!
//! Tests of memory that client and daemon share run where there is such memory: on Linux. Tests of a
//! connection that ends in one direction run where there are sockets: on Unix.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod connecting;
mod daemon;
mod deadlocks;
#[cfg(target_os = "linux")]
mod delegation;
mod leased;
mod limits;
mod locks;
mod looking;
#[cfg(unix)]
mod mute;
#[cfg(target_os = "linux")]
mod owned;
mod protocol;
mod raw;
#[cfg(target_os = "linux")]
mod reclaim;
mod stealing;
mod terms;
