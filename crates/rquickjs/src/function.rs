//! The functions that scripts and QuickJS call: what each of them does.

use std::{
    cell::{Cell, RefCell},
    rc::Weak,
};

use navlock_js::RequestKey;
use rquickjs::{Ctx, Result, qjs::JSClassID};

use crate::{
    class::{Class, Classes, instance},
    collector::{Collector, Show},
    home::{Home, HomeObject},
    raw::Bare,
};

/// A function of this crate.
///
/// `Function::new` is not used, because QuickJS does not see the values that such a function keeps.
/// See also [`Classes`].
pub(crate) struct Native<'js> {
    pub(crate) home: HomeObject<'js>,
    /// The number of the agent, for the functions that belong to one.
    pub(crate) number: usize,
    pub(crate) operation: Operation<'js>,
}

/// What a function does.
pub(crate) enum Operation<'js> {
    /// `LockManager.prototype.request`
    Request,
    /// `LockManager.prototype.query`
    Query,
    /// The getter of `Lock.prototype.name`
    LockName,
    /// The getter of `Lock.prototype.mode`
    LockMode,
    /// The getter of `navigator`
    Navigator,
    /// The getter of `Navigator.prototype.locks`
    Locks,
    /// An interface object, which constructs nothing.
    Illegal,
    /// A step by which a request is settled with what its callback returned.
    Adopt(Adoption<'js>),
    /// The signal of a request has aborted.
    Abort {
        /// The request that is aborted.
        key: RequestKey,
        /// The signal that has aborted.
        signal: Bare<'js>,
    },
}

/// The content of a function that settles a request with what the request's callback returned. The
/// function is called once for each job that this takes.
///
/// FAST: the specification converts the returned value to a promise: it resolves a new promise with the
/// value, and a reaction to that promise settles the request. Scripts see neither the promise nor the
/// reaction, and both would cost functions and promises. So neither is made. What scripts see is the same,
/// job by job. The value's `then` is read at once and called in a job. When `then` calls one of the functions
/// that it was given, the request is settled in another job. If `then` calls the function with a value that
/// has a `then` too, that `then` is also read, and called in a job.
///
/// Spec: <https://webidl.spec.whatwg.org/#js-promise>,
/// <https://tc39.es/ecma262/#sec-promise-resolve-functions>
///
/// An interrupt may stop a job before the job has called this function. QuickJS then drops the job and this
/// function, and the request ends. It is different while this function waits for a pending promise: if the
/// function is dropped together with that promise, nothing can settle the request, and the lock stays held.
pub(crate) struct Adoption<'js> {
    /// The home of the request's agent. Weak: when an object is finalized, objects that it refers to may be
    /// gone.
    pub(crate) home: Weak<Home<'js>>,
    pub(crate) number: usize,
    pub(crate) key: Cell<RequestKey>,
    pub(crate) next: Cell<Step>,
    /// The promise that calls this function when the promise is settled: what the callback returned, if that
    /// is a promise with the language's own `then`; otherwise a new promise, whose functions are given to the
    /// value's `then`.
    pub(crate) promise: RefCell<Option<Bare<'js>>>,
}

/// What the next call of the function is for.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    /// A job is to call the value's `then`. The arguments are the value and its `then`.
    CallThen,
    /// The promise that the callback returned has been settled.
    Told,
    /// The new promise, whose functions a script's own `then` was given, has been settled. The request is
    /// to be settled in the same way.
    Settled,
    /// The request is to be fulfilled with the argument.
    Fulfill,
    /// The request is to be rejected with the argument.
    Reject,
    /// The function is not to be called.
    Never,
}

impl<'js> Native<'js> {
    /// The function, without a name or a length.
    pub(crate) fn function(
        home: &HomeObject<'js>,
        number: usize,
        operation: Operation<'js>,
    ) -> Result<Bare<'js>> {
        let native = Self { home: home.clone(), number, operation };
        instance(home.classes, &home.function_prototype, native)
    }

    /// The context that the function belongs to.
    pub(crate) fn ctx(&self) -> &Ctx<'js> {
        &self.home.ctx
    }

    /// If the function adopts values and belongs to this agent, makes the function adopt what
    /// another callback has returned. Returns whether it does.
    pub(crate) fn adopts_again(&self, number: usize, key: RequestKey, step: Step) -> bool {
        match &self.operation {
            Operation::Adopt(adoption) if self.number == number => {
                adoption.begin(key, step);
                true
            }
            _ => false,
        }
    }
}

// SAFETY: `Classes::of` defines this class with such contents.
#[expect(unsafe_code, reason = "what an object has, only its class says")]
unsafe impl Class for Native<'_> {
    fn id(classes: Classes) -> JSClassID {
        classes.function
    }
}

impl Show for Native<'_> {
    fn show(&self, collector: &Collector) {
        collector.see(self.home.object());
        match &self.operation {
            Operation::Abort { signal, .. } => collector.see(signal),
            Operation::Adopt(adoption) => adoption.show(collector),
            _ => {}
        }
    }
}
