#![cfg_attr(feature = "futures", doc = include_str!("../README.md"))]
#![cfg_attr(not(feature = "futures"), doc = "`navigator.locks` for rquickjs.")]
#![deny(unsafe_code)]
#![allow(elided_lifetimes_in_paths, reason = "what rquickjs derives has such")]

mod adopt;
mod agent;
mod call;
mod class;
mod classes;
mod collector;
mod drive;
mod engine;
mod function;
mod home;
mod homes;
mod interfaces;
mod locks;
mod operations;
mod raw;
mod refusal;
mod scripts;

pub use navlock;
use navlock::LockManager;
use rquickjs::{Ctx, Result};

pub use crate::{drive::run, locks::Locks};

/// Defines `navigator.locks` for the scripts of this context. It is the lock manager of the context's own agent.
///
/// This also defines whatever is missing of `navigator`, the interfaces `LockManager` and `Lock`, and these interfaces of
/// the DOM: `DOMException`, `Event`, `EventTarget`, `AbortController` and `AbortSignal`. Call it before any script that is
/// not trusted, because a script could change the built-in objects that this uses. Call it after the host has defined its
/// own `AbortSignal` and `setTimeout`, if it has them.
///
/// # Errors
///
/// [`Error::Exception`](rquickjs::Error::Exception), with the exception for `Ctx::catch`: if
/// `navigator.locks` is registered in this context already; if the context lacks intrinsics of the
/// language (`Context::full` has all); or if a limit of memory is reached.
pub fn register<'js>(ctx: &Ctx<'js>, locks: LockManager) -> Result<Locks<'js>> {
    Locks::register(ctx, locks)
}
