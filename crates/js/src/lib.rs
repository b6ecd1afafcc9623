//! `navigator.locks` for JavaScript engines, without an engine: the interfaces of the Web Locks API
//! ([section 3]) in Rust.
//!
//! This is not the crate to have `navigator.locks` in Boa or QuickJS: use `navlock-boa` or
//! `navlock-rquickjs`. This one is for those who bring it to another engine. They implement [`Engine`], which says what is asked of the
//! engine, and give each lock manager object a [`Realm`]. The realm does all the rest: the conversions and
//! checks of arguments in their order, the requests, the tasks in which callbacks are called, and the end of
//! the agent. A realm belongs to one thread. [`Realm::poll_ready`] tells of a grant that comes from another
//! one.
//!
//! The calling order, for one call of a script:
//!
//! 1. The engine's function `request` finds out whether its `this` is a lock manager (if not, it
//!    answers with [`illegal_invocation`]), and calls [`Realm::request`]. The promise goes to the script.
//! 2. The host waits for [`Realm::poll_ready`] beside all else that it waits for, as long as
//!    [`Realm::is_waiting`] at least, and then calls [`Realm::run_task`] once. It runs the engine's
//!    microtasks.
//! 3. What the callback returned is settled some time: the engine calls [`Realm::settle`]. If a signal
//!    aborts before the callback is called, it calls [`Realm::abort`].
//!
//! For any engine, the first two steps are:
//!
//! ```
//! use std::task::Context;
//!
//! use navlock_js::{Engine, Realm, illegal_invocation};
//!
//! /// The function `request` of the interface. `this` is the realm, if it was called on a lock manager.
//! fn request<E: Engine>(
//!     engine: &mut E,
//!     this: Option<&Realm<E::Value, E::Deferred>>,
//!     arguments: &[E::Value],
//! ) -> Result<E::Value, E::Error> {
//!     match this {
//!         Some(realm) => realm.request(engine, arguments),
//!         None => illegal_invocation(engine, "request"),
//!     }
//! }
//!
//! /// One round of the host's loop, which `context` wakes when there is a task.
//! fn round<E: Engine>(
//!     engine: &mut E,
//!     realm: &Realm<E::Value, E::Deferred>,
//!     context: &mut Context<'_>,
//!     run_microtasks: impl FnOnce(&mut E),
//! ) -> Result<(), E::Error> {
//!     if realm.poll_ready(context).is_ready() && realm.run_task(engine)? {
//!         run_microtasks(engine);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! The crate has no features.
//!
//! Read on at [`Engine`], and in the sources of `navlock-boa`, which implement it in the file `engine.rs`.
//!
//! [section 3]: https://w3c.github.io/web-locks/#api

#![forbid(unsafe_code)]

/// What the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod dom;
mod engine;
mod inbox;
mod realm;
mod state;
mod webidl;

pub use crate::{
    dom::DOM,
    engine::{Engine, RequestKey},
    realm::Realm,
};

/// A promise that is rejected with a `TypeError`: what a function of the interface answers with if its
/// `this` is no lock manager. Nothing else is converted or checked then.
///
/// Spec: <https://webidl.spec.whatwg.org/#dfn-create-operation-function>
///
/// # Errors
///
/// Only what no script can catch.
pub fn illegal_invocation<E: Engine>(engine: &mut E, function: &str) -> Result<E::Value, E::Error> {
    let (promise, deferred) = engine.new_promise()?;
    let reason =
        engine.type_error(&format!("{function}() was called on what is no LockManager"))?;
    engine.reject(deferred, reason)?;
    Ok(promise)
}
