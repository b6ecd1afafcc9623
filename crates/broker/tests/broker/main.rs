//! What programs see of each other through one daemon. The daemon runs in this process; its
//! clients reach it by its socket, as they would reach any.
//!
//! What is about memory that both share is where there is such: on Linux. What is about a connection that ends in one
//! direction is where there are sockets: on Unix.

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
mod recall;
mod stealing;
mod terms;
