//! What a callback has returned, as a promise.

use std::cell::{Cell, RefCell};

use navlock_js::{Engine, RequestKey};
use rquickjs::{Object, Result, atom::PredefinedAtom, object::Property, qjs};

use crate::{
    class::Collector,
    engine::Quick,
    function::{Call, Operation},
    home::Home,
    raw::{self, Bare},
};

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
pub(crate) struct Adoption<'js> {
    key: RequestKey,
    next: Cell<Step>,
    /// What the callback returned, if that is a promise of the language's own.
    promise: RefCell<Option<Bare<'js>>>,
}

/// What the next call is for.
#[derive(Clone, Copy)]
enum Step {
    /// A job is to call the value's `then`: the arguments.
    CallThen,
    /// The promise has been settled.
    Told,
    /// The request is to be settled, with the argument.
    Fulfill,
    /// The request is to be settled, with the argument for a reason.
    Reject,
}

impl<'js> Quick<'js> {
    /// Has a value converted to a promise, and the request settled once that is.
    pub(crate) fn adopt(&mut self, value: &Bare<'js>, key: RequestKey) -> Result<()> {
        // 8.
        if !value.is_object() {
            return self.later(key, Step::Fulfill, [value]);
        }
        // 9. to 10.
        let then = match value.get(self.ctx(), PredefinedAtom::Then) {
            Ok(then) => then,
            Err(error) => {
                let reason = self.catch(error)?;
                return self.later(key, Step::Reject, [&reason]);
            }
        };
        // 12.
        if !then.is_function(self.ctx()) {
            return self.later(key, Step::Fulfill, [value]);
        }
        // 13. to 15.
        self.later(key, Step::CallThen, [value, &then])
    }

    /// Has the first step done in a job.
    fn later<const N: usize>(
        &self,
        key: RequestKey,
        step: Step,
        arguments: [&Bare<'js>; N],
    ) -> Result<()> {
        let adoption = Adoption { key, next: Cell::new(step), promise: RefCell::default() };
        self.native(Operation::Adopt(adoption))?.defer(self.ctx(), arguments)
    }

    /// The `then` of a thenable: it is given the functions of a promise.
    fn call_own_then(
        &mut self,
        value: &Bare<'js>,
        then: &Bare<'js>,
        key: RequestKey,
    ) -> Result<()> {
        let [promise, resolve, reject] = raw::promise(self.ctx())?;
        // So that `then` makes a promise of the language's own kind, whatever scripts have made of
        // `Promise.prototype.constructor`. No script ever sees this one.
        let undefined = Property::from(self.undefined().value(self.ctx()));
        let object = Object::from_value(promise.value(self.ctx()))?;
        object.prop(PredefinedAtom::Constructor, undefined)?;
        let settle = |is_fulfilled| self.native(Operation::Settle { key, is_fulfilled });
        let (fulfilled, rejected) = (settle(true)?, settle(false)?);
        self.home.then.call(self.ctx(), &promise, [&fulfilled, &rejected])?;
        match then.call(self.ctx(), value, [&resolve, &reject]) {
            Ok(_) => Ok(()),
            Err(error) => {
                let reason = self.catch(error)?;
                self.invoke(&reject, &reason)
            }
        }
    }
}

impl<'js> Adoption<'js> {
    /// Does what the call is for. `engine` makes one for this agent of this context.
    pub(crate) fn step(
        &self,
        home: &Home<'js>,
        engine: impl Fn() -> Quick<'js>,
        call: &Call<'js>,
    ) -> Result<()> {
        let [value, then, _] = &*call.arguments;
        let gone_on = match self.next.get() {
            Step::CallThen => {
                if value.promise_state(&home.ctx).is_some() && then.is_same_object(&home.then) {
                    self.call_then(home, &engine, call)
                } else {
                    engine().call_own_then(value, then, self.key)
                }
            }
            Step::Told => {
                let promise = self.promise.take();
                let state = promise.and_then(|promise| promise.promise_state(&home.ctx));
                if state == Some(qjs::JSPromiseStateEnum_JS_PROMISE_REJECTED) {
                    self.later(home, Step::Reject, value, call)
                } else {
                    self.resolve(home, &engine, call)
                }
            }
            Step::Fulfill => {
                let mut engine = engine();
                return engine.realm().settle(&mut engine, self.key, Ok(value.clone()));
            }
            Step::Reject => {
                let mut engine = engine();
                return engine.realm().settle(&mut engine, self.key, Err(value.clone()));
            }
        };
        gone_on.or_else(|error| {
            let mut engine = engine();
            engine.realm().fail(&mut engine, self.key, error)
        })
    }

    /// A panic goes through a step: no other one follows.
    pub(crate) fn stop(&self, engine: &Quick<'js>) {
        engine.realm().stop(self.key);
    }

    /// What a promise of the language's own is fulfilled with: as [`Quick::adopt`].
    fn resolve(
        &self,
        home: &Home<'js>,
        engine: &impl Fn() -> Quick<'js>,
        call: &Call<'js>,
    ) -> Result<()> {
        let value = &call.arguments[0];
        if !value.is_object() {
            return self.later(home, Step::Fulfill, value, call);
        }
        match value.get(&home.ctx, PredefinedAtom::Then) {
            Ok(then) if then.is_function(&home.ctx) => {
                self.next.set(Step::CallThen);
                call.function.defer(&home.ctx, [value, &then])
            }
            Ok(_) => self.later(home, Step::Fulfill, value, call),
            Err(error) => self.later(home, Step::Reject, &engine().catch(error)?, call),
        }
    }

    /// The `then` of the language's own. It gives a script nothing that it could call: so it can be told
    /// by any function, and which of two would have been called is what the promise knows.
    ///
    /// Spec: <https://tc39.es/ecma262/#sec-promiseresolvethenablejob>
    fn call_then(
        &self,
        home: &Home<'js>,
        engine: &impl Fn() -> Quick<'js>,
        call: &Call<'js>,
    ) -> Result<()> {
        let (promise, told) = (&call.arguments[0], &*call.function);
        self.next.set(Step::Told);
        self.promise.replace(Some(promise.clone()));
        match home.then.call(&home.ctx, promise, [told, told]) {
            Ok(_) => Ok(()),
            // Of the promise's constructor.
            Err(error) => self.later(home, Step::Reject, &engine().catch(error)?, call),
        }
    }

    /// Has the next step done in a job of its own.
    fn later(
        &self,
        home: &Home<'js>,
        step: Step,
        value: &Bare<'js>,
        call: &Call<'js>,
    ) -> Result<()> {
        self.next.set(step);
        call.function.defer(&home.ctx, [value])
    }

    pub(crate) fn show(&self, collector: &Collector) {
        let Ok(promise) = self.promise.try_borrow() else { return };
        promise.iter().for_each(|promise| collector.see(promise));
    }
}
