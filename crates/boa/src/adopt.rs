//! Converts the value that a callback returned to a promise, and settles the request as that promise is
//! settled.

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
    /// Converts a value to a promise, and has the request settled once the promise is.
    ///
    /// FAST: by the specification, the conversion makes a new promise, resolves it with the value, and
    /// adds a reaction that settles the request. Scripts see neither the promise nor the reaction, and
    /// both cost functions and further promises. So neither is made. Scripts see the same as with them,
    /// job by job: `then` is read now and called in a job of its own. The functions that `then` is given
    /// would resolve or reject the new promise. So when one is called, the request is settled in another
    /// job; and a value that would resolve the new promise is adopted in the same way as this one.
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
        // This is the language's own `then`, called on a promise. It passes the functions that it is given to
        // no script. So one function is enough: it reads the state of the promise.
        let told = Told { agent: WeakAgent::of(self.agent), key: key.to_bits(), promise };
        let told = NativeFunction::from_copy_closure_with_captures(
            |_, _, told: &Told, context| told.settle(context),
            told,
        );
        let told = JsValue::from(told.to_js_function(&self.home.realm));
        match then.call(value, &[told.clone(), told], self.context) {
            Ok(_) => Ok(()),
            // The promise's constructor, which `then` asks for, can throw.
            Err(error) => self.reject_in_job(key, error),
        }
    }

    /// Calls the `then` of a thenable, which is given the functions that settle a new promise.
    fn call_own_then(&mut self, value: &JsValue, then: &JsObject, key: RequestKey) -> JsResult<()> {
        let (promise, functions) = JsPromise::new_pending(self.context);
        // Scripts do not see this promise. PerformPromiseThen reads its `constructor`, which scripts
        // could have changed on the prototype: without a prototype there is none.
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

    /// Queues a job that calls `run`, if the agent still exists by then. If the job is dropped before it
    /// runs, the request is stopped, because nothing else would settle it.
    fn in_job(
        &mut self,
        key: RequestKey,
        run: impl FnOnce(&mut Boa<'_>) -> JsResult<()> + 'static,
    ) {
        let mut awaited = Awaited { agent: Some(WeakAgent::of(self.agent)), key };
        let job = PromiseJob::new(move |context| {
            // From here on `attempt` is responsible for the request.
            if let Some(agent) = awaited.agent.take().and_then(|agent| agent.upgrade()) {
                agent.enter(context, |boa| agent.requests.attempt(boa, key, run))?;
            }
            Ok(JsValue::undefined())
        });
        self.context.enqueue_job(job.into());
    }
}

/// A job that is to settle a request. An executor may drop jobs: Boa's own drops all that are left when one
/// fails.
struct Awaited {
    /// `None` once the job runs.
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

/// The data of the function that is called when one of the language's own promises is settled.
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
                    // Cannot happen: the function is called only once the promise is settled.
                    PromiseState::Pending => {}
                }
                Ok(())
            })
        })?;
        Ok(JsValue::undefined())
    }
}

/// The data of a function by which a thenable settles a request.
#[derive(Trace, Finalize)]
struct Outcome {
    #[unsafe_ignore_trace]
    key: u64,
    #[unsafe_ignore_trace]
    outcome: fn(JsValue) -> Result<JsValue, JsValue>,
}
