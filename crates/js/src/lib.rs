#![doc = include_str!("../README.md")]
//!
//! # The calling order
//!
//! A realm belongs to one thread. [`Realm::poll_ready`] tells of a grant that comes from another one. For one
//! call of a script:
//!
//! 1. The engine's function `request` finds out whether its `this` is a lock manager (if not, it
//!    answers with [`illegal_invocation`]), and calls [`Realm::request`]. The promise goes to the script.
//! 2. The host waits for [`Realm::poll_ready`] beside all else that it waits for, as long as
//!    [`Realm::is_waiting`] at least, and then calls [`Realm::run_task`] once. It runs the engine's
//!    microtasks.
//! 3. What the callback returned is settled some time: the engine calls [`Realm::settle`]. If a signal
//!    aborts before the callback is called, it calls [`Realm::abort`].
//!
//! The example above has the first two steps, for any engine. The sources of `navlock-boa` implement [`Engine`]
//! in the file `engine.rs`.

#![forbid(unsafe_code)]

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
