//! What a callback has returned, as a promise.

use boa_engine::{
    Context, Finalize, JsResult, JsValue, NativeFunction, Trace,
    builtins::promise::PromiseState,
    job::PromiseJob,
    js_string,
    object::{JsObject, builtins::JsPromise},
};
use navlock_js::{Engine, RequestKey};

use crate::{agent::WeakAgent, engine::Boa};

impl Boa<'_> {
    /// Has a value converted to a promise, and the request settled once that is.
    ///
    /// FAST: the conversion resolves a new promise with the value, and a reaction to that promise settles
    /// the request. Scripts see neither, and each would cost functions and promises: so they are not
    /// made. What scripts see is the same, job by job: `then` is read now, called in a job, and the
    /// request is settled in a job of its own after what `then` was given is called. What that is called
    /// with resolves the new promise in its turn: so this is done again with it.
    ///
    /// Spec: <https://webidl.spec.whatwg.org/#js-promise>,
    /// <https://tc39.es/ecma262/#sec-promise-resolve-functions>
    pub(crate) fn adopt(&mut self, value: JsValue, key: RequestKey) -> JsResult<()> {
        // 8.
        let Some(object) = value.as_object() else {
            self.settle_in_job(key, Ok(value));
            return Ok(());
        };
        // 9. to 10.
        let then = match object.get(js_string!("then"), self.context) {
            Ok(then) => then,
            Err(error) => return self.reject_in_job(key, error),
        };
        // 12.
        let Some(then) = then.as_callable() else {
            self.settle_in_job(key, Ok(value));
            return Ok(());
        };
        // 13. to 15.
        self.in_job(key, move |boa| boa.call_then(&value, &then, key));
        Ok(())
    }

    /// Spec: <https://tc39.es/ecma262/#sec-promiseresolvethenablejob>
    fn call_then(&mut self, value: &JsValue, then: &JsObject, key: RequestKey) -> JsResult<()> {
        let promise = value.as_promise().filter(|_| *then == self.home.then);
        let Some(promise) = promise else { return self.call_own_then(value, then, key) };
        // The language's own, which gives a script nothing that it could call: it can be told by any
        // function, and what it tells is what the promise knows.
        let told = Told { agent: WeakAgent::of(self.agent), key: key.to_bits(), promise };
        let told = NativeFunction::from_copy_closure_with_captures(
            |_, _, told: &Told, context| told.settle(context),
            told,
        );
        let told = JsValue::from(told.to_js_function(&self.home.realm));
        match then.call(value, &[told.clone(), told], self.context) {
            Ok(_) => Ok(()),
            // Of the promise's constructor.
            Err(error) => self.reject_in_job(key, error),
        }
    }

    /// The `then` of a thenable: it is given the functions of a promise.
    fn call_own_then(&mut self, value: &JsValue, then: &JsObject, key: RequestKey) -> JsResult<()> {
        let (promise, functions) = JsPromise::new_pending(self.context);
        // Nobody sees this promise, and without a prototype it has no `constructor` that scripts could
        // have changed: PerformPromiseThen asks for it.
        promise.set_prototype(None);
        let settled = |outcome: fn(JsValue) -> Result<JsValue, JsValue>| {
            let reaction = (WeakAgent::of(self.agent), Outcome { key: key.to_bits(), outcome });
            let settled = NativeFunction::from_copy_closure_with_captures(
                |_, arguments, (agent, told): &(WeakAgent, Outcome), context| {
                    let Some(agent) = agent.upgrade() else { return Ok(JsValue::undefined()) };
                    let value = arguments.first().cloned().unwrap_or_default();
                    let key = RequestKey::from_bits(told.key);
                    agent.settle(key, (told.outcome)(value), context)
                },
                reaction,
            );
            settled.to_js_function(&self.home.realm)
        };
        let (fulfilled, rejected) = (settled(Ok), settled(Err));
        promise.then(Some(fulfilled), Some(rejected), self.context)?;
        let undefined = JsValue::undefined();
        let arguments = [functions.resolve.into(), functions.reject.clone().into()];
        if let Err(error) = then.call(value, &arguments, self.context) {
            let reason = self.catch(error)?;
            functions.reject.call(&undefined, &[reason], self.context)?;
        }
        Ok(())
    }

    fn reject_in_job(&mut self, key: RequestKey, error: boa_engine::JsError) -> JsResult<()> {
        let reason = self.catch(error)?;
        self.settle_in_job(key, Err(reason));
        Ok(())
    }

    fn settle_in_job(&mut self, key: RequestKey, outcome: Result<JsValue, JsValue>) {
        self.in_job(key, move |boa| boa.agent.requests.settle(boa, key, outcome));
    }

    /// Has something done in a job of its own, without which the request is never settled, if the agent is
    /// there by then.
    fn in_job(
        &mut self,
        key: RequestKey,
        run: impl FnOnce(&mut Boa<'_>) -> JsResult<()> + 'static,
    ) {
        let mut awaited = Awaited { agent: Some(WeakAgent::of(self.agent)), key };
        let job = PromiseJob::new(move |context| {
            // From here on the attempt looks after the request.
            if let Some(agent) = awaited.agent.take().and_then(|agent| agent.upgrade()) {
                agent.enter(context, |boa| agent.requests.attempt(boa, key, run))?;
            }
            Ok(JsValue::undefined())
        });
        self.context.enqueue_job(job.into());
    }
}

/// A job that is to settle a request. An executor may drop it: when another one fails, Boa's does that with
/// all.
struct Awaited {
    /// `None` once it runs.
    agent: Option<WeakAgent>,
    key: RequestKey,
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if let Some(agent) = self.agent.take().and_then(|agent| agent.upgrade()) {
            agent.requests.stop(self.key);
        }
    }
}

/// What a function knows that is called when a promise of the language's own is settled.
#[derive(Trace, Finalize)]
struct Told {
    agent: WeakAgent,
    #[unsafe_ignore_trace]
    key: u64,
    promise: JsPromise,
}

impl Told {
    fn settle(&self, context: &mut Context) -> JsResult<JsValue> {
        let Some(agent) = self.agent.upgrade() else { return Ok(JsValue::undefined()) };
        let key = RequestKey::from_bits(self.key);
        agent.enter(context, |boa| {
            agent.requests.attempt(boa, key, |boa| {
                match self.promise.state() {
                    PromiseState::Fulfilled(value) => return boa.adopt(value, key),
                    PromiseState::Rejected(reason) => boa.settle_in_job(key, Err(reason)),
                    // It is called for what has been settled.
                    PromiseState::Pending => {}
                }
                Ok(())
            })
        })?;
        Ok(JsValue::undefined())
    }
}

/// How a request is settled that a thenable has settled.
#[derive(Trace, Finalize)]
struct Outcome {
    #[unsafe_ignore_trace]
    key: u64,
    #[unsafe_ignore_trace]
    outcome: fn(JsValue) -> Result<JsValue, JsValue>,
}
