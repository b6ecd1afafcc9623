//! Converts the value that a callback returned to a promise, and settles the request when that
//! promise is settled.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
};

use navlock_js::{Engine, RequestKey};
use rquickjs::{Object, Result, atom::PredefinedAtom, object::Property, qjs};

use crate::{
    call::Call,
    class::content,
    collector::Collector,
    engine::Quick,
    function::{Adoption, Native, Operation, Step},
    raw::{self, Bare},
};

impl<'js> Quick<'_, 'js> {
    /// Begins to convert a value to a promise. The request is settled once that promise is settled.
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

    /// Queues a job that does the first step.
    fn later<const N: usize>(
        &self,
        key: RequestKey,
        step: Step,
        arguments: [&Bare<'js>; N],
    ) -> Result<()> {
        self.adoption(key, step)?.defer(self.ctx(), arguments)
    }

    /// The function that begins with this step.
    fn adoption(&self, key: RequestKey, step: Step) -> Result<Bare<'js>> {
        if let Some(spare) = self.home.spare.take() {
            let native: Option<&Native<'js>> = content(self.home.classes, &spare);
            if native.is_some_and(|native| native.adopts_again(self.number, key, step)) {
                return Ok(spare);
            }
        }
        let (home, number) = (self.home.downgrade(), self.number);
        let (key, next) = (Cell::new(key), Cell::new(step));
        let promise = RefCell::default();
        self.native(Operation::Adopt(Adoption { home, number, key, next, promise }))
    }
}

impl<'js> Adoption<'js> {
    /// Calls the `then` of a thenable with the functions that settle a new promise.
    fn call_own_then(
        &self,
        mut engine: Quick<'_, 'js>,
        call: &Call<'js>,
        value: &Bare<'js>,
        then: &Bare<'js>,
    ) -> Result<()> {
        let [promise, resolve, reject] = raw::promise(engine.ctx())?;
        // Without a `constructor` of the promise's own, `then` would read
        // `Promise.prototype.constructor`, which scripts can change. With it, `then` makes one of
        // the language's own promises. No script ever sees this promise.
        let undefined = Property::from(engine.undefined().value(engine.ctx()));
        let object = Object::from_value(promise.value(engine.ctx()))?;
        object.prop(PredefinedAtom::Constructor, undefined)?;
        let told = call.function();
        self.next.set(Step::Settled);
        self.promise.replace(Some(promise.clone()));
        engine.home.then.call(engine.ctx(), &promise, [&*told, &*told])?;
        match then.call(engine.ctx(), value, [&resolve, &reject]) {
            Ok(_) => Ok(()),
            Err(error) => {
                let reason = engine.catch(error)?;
                engine.invoke(&reject, &reason)
            }
        }
    }

    /// Begins again for another request.
    pub(crate) fn begin(&self, key: RequestKey, step: Step) {
        self.key.set(key);
        self.next.set(step);
    }

    /// Does the next step.
    pub(crate) fn step(&self, mut engine: Quick<'_, 'js>, call: &Call<'js>) -> Result<()> {
        let value = call.argument(0);
        let gone_on = match self.next.get() {
            Step::CallThen => self.call_then(engine, call, &value),
            Step::Told => {
                if self.is_rejected(&engine) {
                    self.later(engine, Step::Reject, &value, call)
                } else {
                    self.resolve(engine, &value, call)
                }
            }
            Step::Settled => {
                let is_rejected = self.is_rejected(&engine);
                let value = Bare::clone(&value);
                let outcome = if is_rejected { Err(value) } else { Ok(value) };
                // This function must not be used for another request, because a call of a script's
                // `then` may still be on the stack.
                return self.settle(&mut engine, outcome);
            }
            Step::Fulfill => return self.settle_last(engine, Ok(Bare::clone(&value)), call),
            Step::Reject => return self.settle_last(engine, Err(Bare::clone(&value)), call),
            Step::Never => return Ok(()),
        };
        gone_on.or_else(|error| engine.realm().fail(&mut engine, self.key.get(), error))
    }

    /// Whether the promise that was waited for is rejected.
    fn is_rejected(&self, engine: &Quick<'_, 'js>) -> bool {
        let promise = self.promise.take();
        let state = promise.and_then(|promise| promise.promise_state(engine.ctx()));
        state == Some(qjs::JSPromiseStateEnum_JS_PROMISE_REJECTED)
    }

    /// Stops the request when a panic passes through a step. No other step follows.
    pub(crate) fn stop(&self, engine: Quick<'_, 'js>) {
        engine.realm().stop(self.key.get());
    }

    /// Settles the request.
    fn settle(
        &self,
        engine: &mut Quick<'_, 'js>,
        outcome: std::result::Result<Bare<'js>, Bare<'js>>,
    ) -> Result<()> {
        self.next.set(Step::Never);
        engine.realm().settle(engine, self.key.get(), outcome)
    }

    /// Settles the request by the last call of this function, to which nobody else has a reference.
    fn settle_last(
        &self,
        mut engine: Quick<'_, 'js>,
        outcome: std::result::Result<Bare<'js>, Bare<'js>>,
        call: &Call<'js>,
    ) -> Result<()> {
        self.settle(&mut engine, outcome)?;
        // A later request of the same agent may use the function again. This line is not reached if
        // one of the function's steps failed, was stopped or panicked, or if the function has
        // called a script's own `then`.
        engine.home.spare.replace(Some(Bare::clone(&call.function())));
        Ok(())
    }

    /// Goes on with the value of a fulfilled promise of the language's own, by the steps of
    /// [`Quick::adopt`].
    fn resolve(
        &self,
        mut engine: Quick<'_, 'js>,
        value: &Bare<'js>,
        call: &Call<'js>,
    ) -> Result<()> {
        if !value.is_object() {
            return self.later(engine, Step::Fulfill, value, call);
        }
        match value.get(engine.ctx(), PredefinedAtom::Then) {
            Ok(then) if then.is_function(engine.ctx()) => {
                self.next.set(Step::CallThen);
                call.function().defer(engine.ctx(), [value, &then])
            }
            Ok(_) => self.later(engine, Step::Fulfill, value, call),
            Err(error) => self.later(engine, Step::Reject, &engine.catch(error)?, call),
        }
    }

    /// Calls a value's `then`.
    ///
    /// The language's own `then` gives a script nothing to call. So this one function can be both
    /// arguments of `then`. The state of the promise then says which of the two arguments was
    /// called.
    ///
    /// Spec: <https://tc39.es/ecma262/#sec-promiseresolvethenablejob>
    fn call_then(
        &self,
        mut engine: Quick<'_, 'js>,
        call: &Call<'js>,
        promise: &Bare<'js>,
    ) -> Result<()> {
        let (then, own) = (call.argument(1), &engine.home.then);
        if promise.promise_state(engine.ctx()).is_none() || !then.is_same_object(own) {
            return self.call_own_then(engine, call, promise, &then);
        }
        let told = call.function();
        self.next.set(Step::Told);
        self.promise.replace(Some(promise.clone()));
        match own.call(engine.ctx(), promise, [&*told, &*told]) {
            Ok(_) => Ok(()),
            // The error comes from the promise's constructor. `then` was given this function
            // already, so another function does the next step.
            Err(error) => {
                let reason = engine.catch(error)?;
                engine.later(self.key.get(), Step::Reject, [&reason])?;
                self.next.set(Step::Never);
                Ok(())
            }
        }
    }

    /// Queues a job that does the next step.
    fn later(
        &self,
        engine: Quick<'_, 'js>,
        step: Step,
        value: &Bare<'js>,
        call: &Call<'js>,
    ) -> Result<()> {
        self.next.set(step);
        call.function().defer(engine.ctx(), [value])
    }

    pub(crate) fn show(&self, collector: &Collector) {
        let Ok(promise) = self.promise.try_borrow() else { return };
        promise.iter().for_each(|promise| collector.see(promise));
    }
}

impl Drop for Adoption<'_> {
    /// Ends the request if a job that was dropped would have called the function.
    fn drop(&mut self) {
        let next = self.next.get();
        // `Never`: the request is settled, or another function goes on with it.
        let Some(home) = self.home.upgrade().filter(|_| !matches!(next, Step::Never)) else {
            return;
        };
        if matches!(next, Step::Told | Step::Settled) {
            // A promise that was finalized together with this function has no state any more. It
            // was pending, because it still had a reference to this function.
            let promise = self.promise.get_mut().as_ref();
            let state = promise.and_then(|promise| promise.promise_state(&home.ctx));
            if state.is_none_or(|state| state == qjs::JSPromiseStateEnum_JS_PROMISE_PENDING) {
                return;
            }
        }
        // The stop may wake others, and these may panic. A panic must not pass through QuickJS.
        let stop = || home.agent(self.number).map(|agent| agent.realm.stop(self.key.get()));
        let _ = catch_unwind(AssertUnwindSafe(stop));
    }
}
