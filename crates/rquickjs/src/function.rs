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
/// Not `Function::new`: what that keeps QuickJS does not see, and see [`Classes`].
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
    /// A step to what a callback has returned.
    Adopt(Adoption<'js>),
    /// The signal of a request has aborted.
    Abort {
        /// The request that is aborted.
        key: RequestKey,
        /// The signal that has aborted.
        signal: Bare<'js>,
    },
}

/// What has a request settled when what its callback returned is: the content of a function that is
/// called once for each job of that.
///
/// FAST: converting a value to a promise resolves a new promise with it, and a reaction to that promise
/// settles the request. Scripts see neither, and each would cost functions and promises: so they are not
/// made. What scripts see is the same, job by job: `then` is read at once, called in a job, and the
/// request is settled in a job of its own after what `then` was given is called. What that is called with
/// resolves the new promise in its turn: so its `then` is read, and called in a job.
///
/// Spec: <https://webidl.spec.whatwg.org/#js-promise>,
/// <https://tc39.es/ecma262/#sec-promise-resolve-functions>
///
/// A job that QuickJS stops before it has called this, as an interrupt may, is dropped, and this function with it:
/// then the request ends. But while a promise is pending, nothing is to call it, and if it goes with that promise, what
/// the callback waits for never comes, and the lock stays held.
pub(crate) struct Adoption<'js> {
    /// The home of the request's agent. Weak: when an object is finalized, objects that it refers to may be
    /// gone.
    pub(crate) home: Weak<Home<'js>>,
    pub(crate) number: usize,
    pub(crate) key: Cell<RequestKey>,
    pub(crate) next: Cell<Step>,
    /// The promise that tells this function: what the callback returned, if that is one of the language's own, or
    /// one that its `then` was given the functions of.
    pub(crate) promise: RefCell<Option<Bare<'js>>>,
}

/// What the next call of the function is for.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    /// A job is to call the value's `then`: the arguments.
    CallThen,
    /// The promise that the callback returned has been settled.
    Told,
    /// The promise has been settled that stands for what the callback returned: so is the request to be.
    Settled,
    /// The request is to be settled, with the argument.
    Fulfill,
    /// The request is to be settled, with the argument for a reason.
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

    /// Has it adopt what another callback has returned, if it is a function for that, and of this agent.
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

// SAFETY: `Classes::of` defines it so.
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
