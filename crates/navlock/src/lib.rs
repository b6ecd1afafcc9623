//! Named locks for tasks, threads and processes: the [Web Locks API][spec] outside the browser.
//!
//! A lock has a name and nothing else: whoever asks for the same name in the same bucket gets it
//! in turn. It is exclusive or shared, granted in the order of the requests, held as long as a
//! callback runs or a guard lives, and freed when its holder ends, however it ends.
//!
//! This is not a mutex around data (`std::sync::Mutex` is), nor a lock file: nothing is left
//! behind that could go stale.
//!
//! ```
//! # navlock::blocking::block_on(async {
//! let locks = navlock::in_process().lock_manager("my-app");
//!
//! // Held until the callback's future ends.
//! let sum = locks.request("db", async |_lock| 1 + 1).await?;
//! assert_eq!(sum, 2);
//!
//! // Or as a guard, which any thread may drop.
//! let reader = locks.lock("db").shared().await?;
//! assert!(locks.lock("db").if_available().await?.is_none());
//! drop(reader);
//! # Ok::<(), navlock::Error>(())
//! # }).unwrap();
//! ```
//!
//! # What is where
//!
//! | you want | ask for |
//! |---|---|
//! | a lock while a callback runs | [`LockManager::request`], [`LockRequest::run`] |
//! | a guard | [`LockManager::lock`]; add [`shared`](LockRequest::shared), [`if_available`](LockRequest::if_available), [`steal`](LockRequest::steal) |
//! | several names at once | [`LockManager::request_all`], [`LockManager::lock_all`] |
//! | no executor | [`LockRequest::blocking`], [`blocking_timeout`](LockRequest::blocking_timeout) |
//! | to give up waiting | drop the future; or a timeout of your executor around it |
//! | to know that a lock was taken away | [`LockGuard::lost`], [`LockGuard::is_lost`] |
//! | to refuse a writer that is too late | [`Lock::fencing_token`] |
//! | to see who holds and who waits | [`LockManager::query`] |
//! | to see what happens, as it happens | [`UserAgent::look`] |
//! | to keep programs apart | another bucket ([`UserAgent::bucket`]), or another [`UserAgent`] |
//! | to end a client with all it has | [`LockManager::terminate`] |
//!
//! # Agents
//!
//! Each [`lock_manager`](UserAgent::lock_manager) call makes an *agent*: a client that can die as
//! a whole. Clones of the handle are the same agent. It lives as long as a handle, a guard or a
//! pending request of it does, or until it is terminated.
//!
//! # Executors
//!
//! Any. The futures here bring their own wakers, need no timer and no reactor, and are `Send` if
//! what you put into them is.
//!
//! # Fencing tokens
//!
//! A lock can end before its holder does: it is stolen, or, between machines, its lease ends while
//! the holder is stopped. [`is_lost`](LockGuard::is_lost) tells so, but nothing tells a process that
//! is stopped between that look and its write. So each grant has a
//! [number](Lock::fencing_token), larger than that of every earlier grant of the name. Send it along
//! with what is read and written under the lock, and have the resource refuse whoever comes with
//! a smaller number than it has seen: a writer that is too late then does no harm. The example
//! `fencing` shows it (`cargo run -p navlock --example fencing`).
//!
//! # Features
//!
//! | feature | adds | default |
//! |---|---|---|
//! | `local` | `navlock::local()`: locks that all processes of a user on this machine share; `navlock::system()`: those that several users share | no |
//! | `carried` | `navlock::serve_if_asked()`: a program is its own broker, and `local()` needs no `navlock` in the path | no |
//! | `etcd` | `navlock::etcd()`: locks that all machines share which use one etcd | no |
//! | `postgres` | `navlock::postgres()`: the same on one PostgreSQL, which `navlock::init_postgres()` sets up | no |
//! | `tls` | both with TLS: `https://` endpoints, and encrypted connections to PostgreSQL; needs a C compiler as well | no |
//! | `browser` | `navlock::browser()`: locks that all pages and workers of an origin share, the browser's own; for `wasm32-unknown-unknown` alone | no |
//! | `serde` | [`LockManagerSnapshot`] is written and read as the specification has it | no |
//! | `metrics` | waits and holds are measured, by the facade [`metrics`]: `navlock::describe_metrics()` says what | no |
//!
//! What happens to connections with the broker, etcd and PostgreSQL is told by [`tracing`], to whoever has a
//! subscriber: the targets are `navlock::client`, `navlock::etcd`, `navlock::postgres` and `navlock::machines`.
//! Names of locks are in none of it above the level debug.
//!
//! Read on: [`LockManager`], then ARCHITECTURE.md and CONFORMANCE.md in the repository.
//!
//! [`metrics`]: https://docs.rs/metrics
//! [`tracing`]: https://docs.rs/tracing
//! [spec]: https://www.w3.org/TR/2025/WD-web-locks-20250924/

#![forbid(unsafe_code)]

#[cfg(all(feature = "browser", target_arch = "wasm32", target_os = "unknown"))]
mod browser;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "local")]
mod local;
#[cfg(feature = "postgres")]
mod postgres;

pub use navlock_core::*;

#[cfg(all(feature = "browser", target_arch = "wasm32", target_os = "unknown"))]
pub use crate::browser::*;
#[cfg(feature = "etcd")]
pub use crate::etcd::*;
#[cfg(feature = "local")]
pub use crate::local::*;
#[cfg(feature = "postgres")]
pub use crate::postgres::*;

/// The user agent that all of this process shares: locks between its tasks and threads.
///
/// Each call gives a handle of its own, whose [`close`](UserAgent::close) ends what was opened
/// through it, and not what other parts of the program have. For a user agent that nobody else can
/// see, as tests want it, there is [`UserAgent::new`].
///
/// ```
/// use std::thread;
///
/// let locks = navlock::in_process().lock_manager("my-app");
/// let guard = locks.lock("db").blocking()?;
/// // Another part of the program asks for the same name.
/// let other = thread::spawn(|| {
///     let locks = navlock::in_process().lock_manager("my-app");
///     locks.lock("db").if_available().blocking()
/// });
/// assert!(other.join().unwrap()?.is_none());
/// # Ok::<(), navlock::Error>(())
/// ```
pub fn in_process() -> UserAgent {
    UserAgent::in_process()
}

/// The examples of the book, which are tested with those of this crate. The README also has an example for an
/// embedded engine, so `crates/js-run` tests its examples.
#[cfg(doctest)]
mod documents {
    #[cfg(feature = "carried")]
    #[doc = include_str!("../../../docs/rust.md")]
    mod rust {}

    #[doc = include_str!("../../../docs/recipes.md")]
    mod recipes {}

    #[cfg(feature = "etcd")]
    #[doc = include_str!("../../../docs/many-machines.md")]
    mod many_machines {}
}
