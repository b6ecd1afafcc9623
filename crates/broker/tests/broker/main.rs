//! What programs see of each other through one daemon. The daemon runs in this process; its
//! clients reach it by its socket, as they would reach any.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod connecting;
mod daemon;
mod deadlocks;
mod delegation;
mod leased;
mod limits;
mod locks;
mod looking;
mod owned;
mod protocol;
mod raw;
mod recall;
mod stealing;
mod terms;
