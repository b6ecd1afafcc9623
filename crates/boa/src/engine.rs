//! Implements [`Engine`] for Boa.

use std::{rc::Rc, str};

use boa_engine::{
    Context, Finalize, JsError, JsNativeError, JsObject, JsResult, JsString, JsValue,
    NativeFunction, Trace,
    builtins::promise::ResolvingFunctions,
    js_string,
    object::builtins::{JsArray, JsPromise},
};
use navlock::{Mode, ReservedName, ResourceName};
use navlock_js::{Engine, RequestKey};

use crate::{
    agent::{Agent, WeakAgent},
    home::Home,
    homes, interfaces,
};

/// A context whose current realm is that of an agent.
pub(crate) struct Boa<'a> {
    pub(crate) context: &'a mut Context,
    pub(crate) agent: &'a Rc<Agent>,
    pub(crate) home: &'a Rc<Home>,
}

impl Engine for Boa<'_> {
    type Value = JsValue;
    type Deferred = ResolvingFunctions;
    type Error = JsError;

    fn undefined(&mut self) -> JsValue {
        JsValue::undefined()
    }

    fn null(&mut self) -> JsValue {
        JsValue::null()
    }

    fn is_undefined(&mut self, value: &JsValue) -> bool {
        value.is_undefined()
    }

    fn is_null(&mut self, value: &JsValue) -> bool {
        value.is_null()
    }

    fn is_object(&mut self, value: &JsValue) -> bool {
        value.is_object()
    }

    fn is_callable(&mut self, value: &JsValue) -> bool {
        value.is_callable()
    }

    fn to_boolean(&mut self, value: &JsValue) -> bool {
        value.to_boolean()
    }

    fn to_utf16(&mut self, value: &JsValue) -> JsResult<Vec<u16>> {
        Ok(value.to_string(self.context)?.to_vec())
    }

    fn to_name(&mut self, value: &JsValue) -> JsResult<Result<ResourceName, ReservedName>> {
        let text = value.to_string(self.context)?;
        // FAST: nearly all names are of ASCII, which Boa keeps as bytes.
        let ascii = text.as_str();
        let ascii = ascii.as_latin1().filter(|bytes| bytes.is_ascii());
        Ok(match ascii.and_then(|bytes| str::from_utf8(bytes).ok()) {
            Some(ascii) => ResourceName::try_from(ascii),
            None => ResourceName::from_utf16(&text.to_vec()),
        })
    }

    fn get(&mut self, object: &JsValue, key: &'static str) -> JsResult<JsValue> {
        object_of(object)?.get(property(key), self.context)
    }

    fn call(&mut self, function: &JsValue, argument: JsValue) -> JsResult<JsValue> {
        object_of(function)?.call(&JsValue::undefined(), &[argument], self.context)
    }

    fn string(&mut self, units: &[u16]) -> JsResult<JsValue> {
        Ok(JsString::from(units).into())
    }

    fn object<const N: usize>(
        &mut self,
        properties: [(&'static str, JsValue); N],
    ) -> JsResult<JsValue> {
        let object = JsObject::with_object_proto(self.context.intrinsics());
        for (key, value) in properties {
            object.create_data_property_or_throw(property(key), value, self.context)?;
        }
        Ok(object.into())
    }

    fn array(&mut self, values: Vec<JsValue>) -> JsResult<JsValue> {
        Ok(JsArray::from_iter(values, self.context).into())
    }

    fn lock(&mut self, name: ResourceName, mode: Mode) -> JsResult<JsValue> {
        Ok(interfaces::lock(self.home, name, mode))
    }

    fn type_error(&mut self, message: &str) -> JsResult<JsValue> {
        let error = JsNativeError::typ().with_message(message.to_owned());
        Ok(error.into_opaque(self.context).into())
    }

    fn dom_exception(&mut self, name: &'static str, message: &str) -> JsResult<JsValue> {
        self.home.dom.exception(name, message, self.context)
    }

    fn throw(&mut self, value: JsValue) -> JsError {
        JsError::from_opaque(value)
    }

    fn catch(&mut self, error: JsError) -> JsResult<JsValue> {
        error.into_opaque(self.context)
    }

    fn new_promise(&mut self) -> JsResult<(JsValue, ResolvingFunctions)> {
        let (promise, functions) = JsPromise::new_pending(self.context);
        Ok((promise.into(), functions))
    }

    fn resolve(&mut self, deferred: ResolvingFunctions, value: JsValue) -> JsResult<()> {
        deferred.resolve.call(&JsValue::undefined(), &[value], self.context).map(drop)
    }

    fn reject(&mut self, deferred: ResolvingFunctions, reason: JsValue) -> JsResult<()> {
        deferred.reject.call(&JsValue::undefined(), &[reason], self.context).map(drop)
    }

    fn react(&mut self, value: JsValue, key: RequestKey) -> JsResult<()> {
        self.adopt(value, key)
    }

    fn is_signal(&mut self, value: &JsValue) -> JsResult<bool> {
        Ok(value.is_object() && self.home_of(value)?.is_some())
    }

    fn abort_reason(&mut self, signal: &JsValue) -> JsResult<Option<JsValue>> {
        let Some(home) = self.home_of(signal)? else { return Ok(None) };
        home.dom.abort_reason(signal, self.context)
    }

    fn add_abort_algorithm(&mut self, signal: &JsValue, key: RequestKey) -> JsResult<JsValue> {
        let algorithm = NativeFunction::from_copy_closure_with_captures(
            |_, _, algorithm: &Algorithm, context| algorithm.run(context),
            Algorithm {
                agent: WeakAgent::of(self.agent),
                key: key.to_bits(),
                signal: signal.clone(),
            },
        );
        let algorithm = algorithm.to_js_function(&self.home.realm);
        let Some(home) = self.home_of(signal)? else { return Ok(JsValue::undefined()) };
        home.dom.add(signal, algorithm, self.context)
    }

    fn remove_abort_algorithm(&mut self, signal: &JsValue, handle: &JsValue) -> JsResult<()> {
        let Some(home) = self.home_of(signal)? else { return Ok(()) };
        home.dom.remove(signal, handle, self.context)
    }
}

impl Agent {
    /// Calls the engine in the agent's realm. Then [drives](Self::drive) the agent, because what the agent
    /// waits for may have changed.
    pub(crate) fn enter<T>(
        self: &Rc<Self>,
        context: &mut Context,
        call: impl FnOnce(&mut Boa<'_>) -> JsResult<T>,
    ) -> JsResult<T> {
        let home = self.home()?;
        let outer = context.enter_realm(home.realm.clone());
        let result = call(&mut Boa { context, agent: self, home: &home });
        context.enter_realm(outer);
        self.drive(context);
        result
    }

    pub(crate) fn settle(
        self: &Rc<Self>,
        key: RequestKey,
        outcome: Result<JsValue, JsValue>,
        context: &mut Context,
    ) -> JsResult<JsValue> {
        self.enter(context, |boa| self.requests.settle(boa, key, outcome))?;
        Ok(JsValue::undefined())
    }

    /// Runs one task, if there is one. Returns whether there was one.
    pub(crate) fn run_task(self: &Rc<Self>, context: &mut Context) -> JsResult<bool> {
        self.enter(context, |boa| self.requests.run_task(boa))
    }
}

impl Boa<'_> {
    /// The home whose script knows this signal. Each realm's script knows its own signals alone, and the
    /// signals of all realms of the context count.
    fn home_of(&mut self, signal: &JsValue) -> JsResult<Option<Rc<Home>>> {
        if self.home.dom.is_signal(signal, self.context)? {
            return Ok(Some(Rc::clone(self.home)));
        }
        for home in homes::homes(self.context) {
            if home.dom.is_signal(signal, self.context)? {
                return Ok(Some(home));
            }
        }
        Ok(None)
    }
}

/// An abort algorithm.
#[derive(Trace, Finalize)]
struct Algorithm {
    agent: WeakAgent,
    #[unsafe_ignore_trace]
    key: u64,
    signal: JsValue,
}

impl Algorithm {
    fn run(&self, context: &mut Context) -> JsResult<JsValue> {
        let Some(agent) = self.agent.upgrade() else { return Ok(JsValue::undefined()) };
        agent.enter(context, |boa| {
            let reason = boa.abort_reason(&self.signal)?.unwrap_or_default();
            agent.requests.abort(boa, RequestKey::from_bits(self.key), reason)
        })?;
        Ok(JsValue::undefined())
    }
}

/// A value whose properties `navlock-js` reads, or that it calls, is known to be an object.
fn object_of(value: &JsValue) -> JsResult<JsObject> {
    let not_one = || JsNativeError::typ().with_message("not an object");
    value.as_object().ok_or_else(|| not_one().into())
}

/// The keys that `navlock-js` uses, as strings that need no memory.
fn property(key: &'static str) -> JsString {
    match key {
        "ifAvailable" => js_string!("ifAvailable"),
        "mode" => js_string!("mode"),
        "signal" => js_string!("signal"),
        "steal" => js_string!("steal"),
        "clientId" => js_string!("clientId"),
        "name" => js_string!("name"),
        "held" => js_string!("held"),
        "pending" => js_string!("pending"),
        other => JsString::from(other),
    }
}
