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

/// Defines `navigator.locks` for the scripts of this context: the lock manager of the context's own
/// agent.
///
/// Of `navigator`, the interfaces `LockManager` and `Lock`, and these interfaces of the DOM, this
/// also defines those that the context lacks: `DOMException`, `Event`, `EventTarget`,
/// `AbortController` and `AbortSignal`. Call this function before any script that is not trusted,
/// because a script could change the built-in objects that this function uses. Call it after the
/// host has defined its own `AbortSignal` and `setTimeout`, if the host has them.
///
/// ```
/// use navlock_rquickjs::{navlock, register, run};
/// use rquickjs::{Context, Runtime};
///
/// let context = Context::full(&Runtime::new()?)?;
/// context.with(|ctx| {
///     let _ = register(&ctx, navlock::in_process().lock_manager("my-app"))?;
///     ctx.eval::<(), _>("navigator.locks.request('db', () => { globalThis.done = true; })")
/// })?;
/// run(&context)?;
/// assert!(context.with(|ctx| ctx.globals().get::<_, bool>("done"))?);
/// # Ok::<(), rquickjs::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Exception`](rquickjs::Error::Exception), with the exception for `Ctx::catch`, in one of
/// these cases: `navigator.locks` is registered in this context already; the context lacks
/// intrinsics of the language (`Context::full` has all); or a limit of memory is reached.
pub fn register<'js>(ctx: &Ctx<'js>, locks: LockManager) -> Result<Locks<'js>> {
    Locks::register(ctx, locks)
}
