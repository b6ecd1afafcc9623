//! Node-API as an engine.

use std::ffi::CStr;

use napi_sys::ValueType;
use navlock::{Mode, ResourceName};
use navlock_js::{Engine, RequestKey};

use crate::{
    js::{Env, Failure, Local},
    value::{Call, Deferred, Value},
};

/// What the JavaScript beside us does for us.
pub(crate) struct Hooks {
    /// `(name: string, isShared: boolean) => Lock`
    pub(crate) lock: Value,
    /// `(message: string, name: string) => DOMException`
    pub(crate) dom_exception: Value,
    /// `() => []`, of no prototype, and `(list) => list`, with its prototype
    pub(crate) new_list: Value,
    pub(crate) finish_list: Value,
    /// `(value, index: number, serial: number) => void`: in the end it calls `settle`
    pub(crate) react: Value,
    /// `(value) => boolean`
    pub(crate) is_signal: Value,
    pub(crate) aborted: Value,
    /// `(signal) => any`
    pub(crate) reason: Value,
    /// `(signal, index: number, serial: number) => algorithm`: it may call `abort`
    pub(crate) add: Value,
    /// `(algorithm) => void`
    pub(crate) remove: Value,
    /// `() => void`: others have news for us
    pub(crate) wake: Value,
}

impl Hooks {
    /// Takes them out of an object.
    pub(crate) fn take(env: Env, call: Call, given: Local) -> Result<Self, Failure> {
        let hook = |name: &CStr| Value::local(env.get(given, name)?, call).keep(env, call);
        Ok(Self {
            lock: hook(c"lock")?,
            dom_exception: hook(c"domException")?,
            new_list: hook(c"newList")?,
            finish_list: hook(c"finishList")?,
            react: hook(c"react")?,
            is_signal: hook(c"isSignal")?,
            aborted: hook(c"aborted")?,
            reason: hook(c"reason")?,
            add: hook(c"add")?,
            remove: hook(c"remove")?,
            wake: hook(c"wake")?,
        })
    }
}

/// The engine, for one call into us.
pub(crate) struct NodeApi<'a> {
    pub(crate) env: Env,
    pub(crate) call: Call,
    pub(crate) hooks: &'a Hooks,
}

impl NodeApi<'_> {
    fn handle(&self, value: &Value) -> Result<Local, Failure> {
        value.handle(self.env, self.call)
    }

    fn value(&self, local: Local) -> Value {
        Value::local(local, self.call)
    }

    fn is(&self, value: &Value, kinds: &[i32]) -> bool {
        value.kind(self.env, self.call).is_ok_and(|kind| kinds.contains(&kind))
    }

    /// Calls a hook.
    fn ask<const N: usize>(&self, hook: &Value, arguments: [Local; N]) -> Result<Local, Failure> {
        self.env.call(self.handle(hook)?, arguments)
    }

    /// The two numbers that a key crosses as: one that had both would not be exact.
    fn numbers(&self, key: RequestKey) -> Result<[Local; 2], Failure> {
        let bits = key.to_bits();
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let (index, serial) = (bits as u32, (bits >> 32) as u32);
        Ok([self.env.u32(index)?, self.env.u32(serial)?])
    }
}

/// The key that these numbers are.
pub(crate) fn key(index: u32, serial: u32) -> RequestKey {
    RequestKey::from_bits(u64::from(serial) << 32 | u64::from(index))
}

impl Engine for NodeApi<'_> {
    type Value = Value;
    type Deferred = Deferred;
    type Error = Failure;

    fn undefined(&mut self) -> Value {
        Value::undefined()
    }

    fn null(&mut self) -> Value {
        Value::null()
    }

    fn is_undefined(&mut self, value: &Value) -> bool {
        self.is(value, &[ValueType::napi_undefined])
    }

    fn is_null(&mut self, value: &Value) -> bool {
        self.is(value, &[ValueType::napi_null])
    }

    fn is_object(&mut self, value: &Value) -> bool {
        self.is(value, &[ValueType::napi_object, ValueType::napi_function])
    }

    fn is_callable(&mut self, value: &Value) -> bool {
        self.is(value, &[ValueType::napi_function])
    }

    fn to_boolean(&mut self, value: &Value) -> bool {
        // FAST: most members of options are not there.
        if self.is(value, &[ValueType::napi_undefined]) {
            return false;
        }
        let coerced = self.handle(value).and_then(|handle| self.env.coerced_to_bool(handle));
        coerced.and_then(|coerced| self.env.to_bool(coerced)).unwrap_or(false)
    }

    fn to_utf16(&mut self, value: &Value) -> Result<Vec<u16>, Failure> {
        let handle = self.handle(value)?;
        if let Some(units) = self.env.units(handle)? {
            return Ok(units);
        }
        let text = self.env.coerced_to_string(handle)?;
        self.env.units(text)?.ok_or_else(|| Failure::Own("a string is none".to_owned()))
    }

    fn get(&mut self, object: &Value, key: &'static str) -> Result<Value, Failure> {
        let name = match key {
            "ifAvailable" => c"ifAvailable",
            "mode" => c"mode",
            "signal" => c"signal",
            "steal" => c"steal",
            other => return Err(Failure::Own(format!("nobody asks for {other}"))),
        };
        let value = self.value(self.env.get(self.handle(object)?, name)?);
        // Of what comes out of options, this is what a request keeps.
        if key == "signal" { value.keep(self.env, self.call) } else { Ok(value) }
    }

    fn call(&mut self, function: &Value, argument: Value) -> Result<Value, Failure> {
        let (function, argument) = (self.handle(function)?, self.handle(&argument)?);
        let this = self.env.undefined()?;
        self.env.call_with(this, function, [argument]).map(|returned| self.value(returned))
    }

    fn string(&mut self, units: &[u16]) -> Result<Value, Failure> {
        self.env.string_of_units(units).map(|string| self.value(string))
    }

    fn object<const N: usize>(
        &mut self,
        properties: [(&'static str, Value); N],
    ) -> Result<Value, Failure> {
        let object = self.env.object()?;
        for (key, value) in properties {
            let name = match key {
                "clientId" => c"clientId",
                "held" => c"held",
                "mode" => c"mode",
                "name" => c"name",
                "pending" => c"pending",
                other => return Err(Failure::Own(format!("nothing has a {other}"))),
            };
            self.env.define_data(object, name, self.handle(&value)?)?;
        }
        Ok(self.value(object))
    }

    fn array(&mut self, values: Vec<Value>) -> Result<Value, Failure> {
        let list = self.ask(&self.hooks.new_list, [])?;
        for (index, value) in (0..).zip(values) {
            self.env.set_element(list, index, self.handle(&value)?)?;
        }
        self.ask(&self.hooks.finish_list, [list]).map(|list| self.value(list))
    }

    fn lock(&mut self, name: ResourceName, mode: Mode) -> Result<Value, Failure> {
        let name = match name.as_str() {
            Some(name) => self.env.string(name)?,
            None => self.env.string_of_units(&name.utf16().collect::<Vec<_>>())?,
        };
        let is_shared = self.env.bool(mode == Mode::Shared)?;
        self.ask(&self.hooks.lock, [name, is_shared]).map(|lock| self.value(lock))
    }

    fn type_error(&mut self, message: &str) -> Result<Value, Failure> {
        let message = self.env.string(message)?;
        self.env.type_error(message).map(|error| self.value(error))
    }

    fn dom_exception(&mut self, name: &'static str, message: &str) -> Result<Value, Failure> {
        let arguments = [self.env.string(message)?, self.env.string(name)?];
        self.ask(&self.hooks.dom_exception, arguments).map(|exception| self.value(exception))
    }

    fn throw(&mut self, value: Value) -> Failure {
        match self.handle(&value) {
            Ok(handle) => Failure::Thrown(handle),
            Err(failure) => failure,
        }
    }

    fn catch(&mut self, error: Failure) -> Result<Value, Failure> {
        match error {
            Failure::Thrown(value) => Ok(self.value(value)),
            other => Err(other),
        }
    }

    fn new_promise(&mut self) -> Result<(Value, Deferred), Failure> {
        let (promise, deferred) = self.env.promise()?;
        Ok((self.value(promise), Deferred(deferred)))
    }

    fn resolve(&mut self, Deferred(deferred): Deferred, value: Value) -> Result<(), Failure> {
        self.env.resolve(deferred, self.handle(&value)?)
    }

    fn reject(&mut self, Deferred(deferred): Deferred, reason: Value) -> Result<(), Failure> {
        self.env.reject(deferred, self.handle(&reason)?)
    }

    fn react(&mut self, value: Value, key: RequestKey) -> Result<(), Failure> {
        let [index, serial] = self.numbers(key)?;
        let value = self.handle(&value)?;
        self.ask(&self.hooks.react, [value, index, serial]).map(drop)
    }

    fn is_signal(&mut self, value: &Value) -> Result<bool, Failure> {
        if !self.is_object(value) {
            return Ok(false);
        }
        let answer = self.ask(&self.hooks.is_signal, [self.handle(value)?])?;
        self.env.to_bool(answer)
    }

    fn abort_reason(&mut self, signal: &Value) -> Result<Option<Value>, Failure> {
        let signal = self.handle(signal)?;
        let answer = self.ask(&self.hooks.aborted, [signal])?;
        if !self.env.to_bool(answer)? {
            return Ok(None);
        }
        self.ask(&self.hooks.reason, [signal]).map(|reason| Some(self.value(reason)))
    }

    fn add_abort_algorithm(&mut self, signal: &Value, key: RequestKey) -> Result<Value, Failure> {
        let [index, serial] = self.numbers(key)?;
        let signal = self.handle(signal)?;
        let algorithm = self.ask(&self.hooks.add, [signal, index, serial])?;
        self.value(algorithm).keep(self.env, self.call)
    }

    fn remove_abort_algorithm(&mut self, _: &Value, algorithm: &Value) -> Result<(), Failure> {
        self.ask(&self.hooks.remove, [self.handle(algorithm)?]).map(drop)
    }
}
