//! An agent of a context.

#[cfg(feature = "futures")]
use std::cell::Cell;

use navlock_js::Realm;
use rquickjs::{Ctx, Object};

use crate::{collector::Collector, raw::Bare};

/// The realm of an agent of this engine.
pub(crate) type QuickRealm<'js> = Realm<Bare<'js>, Deferred<'js>>;

/// An agent of the context.
pub(crate) struct Agent<'js> {
    pub(crate) realm: QuickRealm<'js>,
    /// The object with the interface `LockManager`.
    pub(crate) object: Bare<'js>,
    #[cfg(feature = "futures")]
    pub(crate) drive: Drive,
}

impl<'js> Agent<'js> {
    pub(crate) fn object(&self, ctx: &Ctx<'js>) -> Object<'js> {
        self.object.value(ctx).into_object().expect("it was made as an object")
    }
}

/// How the tasks of an agent are run.
#[cfg(feature = "futures")]
#[derive(Debug, Default)]
pub(crate) struct Drive {
    /// Whether to spawn a future when there is something to wait for.
    pub(crate) spawns: Cell<bool>,
    /// Whether such a future is spawned.
    pub(crate) is_spawned: Cell<bool>,
    /// Whether the future stays when there is nothing to wait for.
    pub(crate) stays: Cell<bool>,
}

/// The function that settles a promise.
///
/// FAST: this is only one of the promise's two functions. Thousands of requests may wait, and the
/// garbage collector visits everything that each request keeps. The function that resolves the
/// promise also rejects it: see [`refuse`](crate::refusal::refuse).
pub(crate) struct Deferred<'js> {
    pub(crate) resolve: Bare<'js>,
}

impl Deferred<'_> {
    pub(crate) fn show(&self, collector: &Collector) {
        collector.see(&self.resolve);
    }
}
