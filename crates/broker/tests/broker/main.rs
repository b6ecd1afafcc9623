//! What programs see of each other through one daemon. The daemon runs in this process; its
//! clients reach it by its socket, as they would reach any.
//!
//! A test begins with a [`Daemon`](daemon::Daemon) and the locks that programs have through it:
//!
//! ```
//! let daemon = Daemon::start();
//! let (a, b) = (daemon.locks(), daemon.locks());
//! let held = soon(a.lock("db")).unwrap();
//! assert!(soon(b.lock("db").if_available()).unwrap().is_none());
//! ```
//!
//! `daemon.rs` has what all tests share: [`soon`](daemon::soon) waits for the outcome of a request,
//! [`queue`](daemon::queue) until a request waits at the daemon, and [`eventually`](daemon::eventually)
//! for what nothing announces. `raw.rs` has the ends of connections whose messages a test writes itself.
//!
//! Tests of memory that client and daemon share run where there is such memory: on Linux. Tests of a
//! connection that ends in one direction run where there are sockets: on Unix.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod connecting;
mod daemon;
mod deadlocks;
#[cfg(target_os = "linux")]
mod delegation;
mod ends;
mod leased;
mod limits;
mod locks;
mod looking;
#[cfg(unix)]
mod mute;
#[cfg(unix)]
mod order;
#[cfg(target_os = "linux")]
mod owned;
#[cfg(unix)]
mod panics;
mod protocol;
mod raw;
#[cfg(target_os = "linux")]
mod reclaim;
mod stealing;
mod terms;
