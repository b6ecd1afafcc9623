//! Implements for QuickJS the engine that `navlock-js` asks for.

use navlock::{Mode, ReservedName, ResourceName};
use navlock_js::{Engine, RequestKey};
use rquickjs::{Array, Constructor, Ctx, Error, Object, String, Value, object::Property};

use crate::{
    agent::{Deferred, QuickRealm},
    class::instance,
    function::{Native, Operation},
    home::{Content, Home, HomeObject, LockObject},
    raw::{self, Bare},
    refusal::refuse,
};

/// QuickJS as the engine of one agent of a context, for the time of one call.
#[derive(Clone, Copy)]
pub(crate) struct Quick<'a, 'js> {
    pub(crate) home: &'a HomeObject<'js>,
    /// The agent's place in its home.
    pub(crate) number: usize,
}

impl<'a, 'js> Quick<'a, 'js> {
    pub(crate) fn ctx(&self) -> &'a Ctx<'js> {
        &self.home.ctx
    }

    pub(crate) fn realm(&self) -> QuickRealm<'js> {
        self.home.realm(self.number)
    }

    /// The home whose hooks recognise this signal: the home of this context, or of another context
    /// of the runtime.
    fn home_of_signal(&self, value: &Bare<'js>) -> Result<Option<HomeObject<'js>>, Error> {
        let value = value.value(self.ctx());
        let is_signal_of =
            |home: &Home<'js>| home.hooks.is_signal.call::<_, bool>((value.clone(),));
        if is_signal_of(self.home)? {
            return Ok(Some(self.home.clone()));
        }
        for other in Home::all(self.ctx()) {
            if !other.object().is_same_object(self.home.object()) && is_signal_of(&other)? {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    /// A function that scripts do not see, for an operation of this agent.
    pub(crate) fn native(&self, operation: Operation<'js>) -> Result<Bare<'js>, Error> {
        Native::function(self.home, self.number, operation)
    }

    /// Calls a function with `undefined` for `this`, and one argument.
    pub(crate) fn invoke(&self, function: &Bare<'js>, argument: &Bare<'js>) -> Result<(), Error> {
        function.call(self.ctx(), &Bare::undefined(self.ctx()), [argument]).map(drop)
    }

    /// Calls a function that settles a promise, and calls it again if QuickJS stops the first call.
    /// Nothing else would settle the promise.
    ///
    /// At a call, QuickJS may ask whether to go on. If the answer stops the call, this calls the
    /// function once more, and QuickJS does not ask again. If the first call had begun to run the
    /// function, the second call does nothing.
    fn invoke_surely(&self, function: &Bare<'js>, argument: &Bare<'js>) -> Result<(), Error> {
        self.invoke(function, argument).map_err(|error| {
            if !self.ctx().has_exception() {
                return error;
            }
            let thrown = self.ctx().catch();
            if thrown.is_uncatchable_error() {
                let _ = self.invoke(function, argument);
            }
            // The caller still gets the error that says why the script was stopped.
            self.ctx().throw(thrown)
        })
    }

    /// The error that throws a `TypeError`.
    pub(crate) fn throw_type_error(&mut self, message: &str) -> Error {
        match self.type_error(message) {
            Ok(error) => self.throw(error),
            Err(error) => error,
        }
    }

    /// The error for a string that cannot be made: the exception that QuickJS has thrown, if any,
    /// or else `error`.
    fn failed(&self, error: Error) -> Error {
        if self.ctx().has_exception() { Error::Exception } else { error }
    }

    fn text(&self, text: &str) -> Result<Value<'js>, Error> {
        Ok(String::from_str(self.ctx().clone(), text)?.into_value())
    }
}

impl<'js> Engine for Quick<'_, 'js> {
    type Value = Bare<'js>;
    type Deferred = Deferred<'js>;
    type Error = Error;

    fn undefined(&mut self) -> Bare<'js> {
        Bare::undefined(self.ctx())
    }

    fn null(&mut self) -> Bare<'js> {
        Bare::null(self.ctx())
    }

    fn is_undefined(&mut self, value: &Bare<'js>) -> bool {
        value.is_undefined()
    }

    fn is_null(&mut self, value: &Bare<'js>) -> bool {
        value.is_null()
    }

    fn is_object(&mut self, value: &Bare<'js>) -> bool {
        value.is_object()
    }

    fn is_callable(&mut self, value: &Bare<'js>) -> bool {
        value.is_function(self.ctx())
    }

    fn to_boolean(&mut self, value: &Bare<'js>) -> bool {
        value.to_boolean(self.ctx())
    }

    fn to_utf16(&mut self, value: &Bare<'js>) -> Result<Vec<u16>, Error> {
        value.with_utf16(self.ctx(), <[u16]>::to_vec)
    }

    fn to_name(&mut self, value: &Bare<'js>) -> Result<Result<ResourceName, ReservedName>, Error> {
        // FAST: many requests are for one name, and a script often keeps this name in one string.
        if let Some((string, name)) = &*self.home.last_name.borrow() {
            if string.is_same_string(value) {
                return Ok(Ok(name.clone()));
            }
        }
        let name = value.with_utf16(self.ctx(), ResourceName::from_utf16)?;
        if let Ok(name) = &name {
            if value.is_string() && name.is_short() {
                self.home.last_name.replace(Some((value.clone(), name.clone())));
            }
        }
        Ok(name)
    }

    fn get(&mut self, object: &Bare<'js>, key: &'static str) -> Result<Bare<'js>, Error> {
        match object.value(self.ctx()).as_object() {
            Some(object) => object.get(key).map(|value: Value<'js>| value.into()),
            None => Ok(self.undefined()),
        }
    }

    fn call(&mut self, function: &Bare<'js>, argument: Bare<'js>) -> Result<Bare<'js>, Error> {
        function.call(self.ctx(), &Bare::undefined(self.ctx()), [&argument])
    }

    fn string(&mut self, units: &[u16]) -> Result<Bare<'js>, Error> {
        match std::string::String::from_utf16(units) {
            Ok(text) => Ok(self.text(&text)?.into()),
            // The text has a lone surrogate.
            Err(_) => raw::string(self.ctx(), units),
        }
    }

    fn object<const N: usize>(
        &mut self,
        properties: [(&'static str, Bare<'js>); N],
    ) -> Result<Bare<'js>, Error> {
        let object = Object::new(self.ctx().clone())?;
        for (key, value) in properties {
            object.prop(key, data_property(value.value(self.ctx())))?;
        }
        Ok(object.into_value().into())
    }

    fn array(&mut self, values: Vec<Bare<'js>>) -> Result<Bare<'js>, Error> {
        let array = Array::new(self.ctx().clone())?;
        for (index, value) in (0..).zip(values) {
            let index: u32 = index;
            array.as_object().prop(index, data_property(value.value(self.ctx())))?;
        }
        Ok(array.into_value().into())
    }

    fn lock(&mut self, name: ResourceName, mode: Mode) -> Result<Bare<'js>, Error> {
        let lock = LockObject { name, mode };
        instance(self.home.classes, &self.home.lock_prototype, Content::Lock(lock))
    }

    fn type_error(&mut self, message: &str) -> Result<Bare<'js>, Error> {
        let error: Value<'js> = self.home.tools.type_error.construct((self.text(message)?,))?;
        Ok(error.into())
    }

    fn dom_exception(&mut self, name: &'static str, message: &str) -> Result<Bare<'js>, Error> {
        let exception: &Constructor<'js> = &self.home.hooks.dom_exception;
        let exception: Value<'js> = exception.construct((self.text(message)?, self.text(name)?))?;
        Ok(exception.into())
    }

    fn throw(&mut self, value: Bare<'js>) -> Error {
        self.ctx().throw(value.value(self.ctx()))
    }

    fn catch(&mut self, error: Error) -> Result<Bare<'js>, Error> {
        match self.failed(error) {
            Error::Exception => {
                let thrown = self.ctx().catch();
                if thrown.is_uncatchable_error() {
                    return Err(self.ctx().throw(thrown));
                }
                Ok(thrown.into())
            }
            // This error is rquickjs's own.
            error => self.type_error(&error.to_string()),
        }
    }

    fn new_promise(&mut self) -> Result<(Bare<'js>, Deferred<'js>), Error> {
        let [promise, resolve, _] = raw::promise(self.ctx())?;
        Ok((promise, Deferred { resolve }))
    }

    fn resolve(&mut self, deferred: Deferred<'js>, value: Bare<'js>) -> Result<(), Error> {
        self.invoke_surely(&deferred.resolve, &value)
    }

    fn reject(&mut self, deferred: Deferred<'js>, reason: Bare<'js>) -> Result<(), Error> {
        let refusal = &self.home.refusal;
        refuse(self.ctx(), self.home.classes, refusal, reason, || {
            self.invoke_surely(&deferred.resolve, refusal)
        })
    }

    fn react(&mut self, value: Bare<'js>, key: RequestKey) -> Result<(), Error> {
        self.adopt(&value, key)
    }

    fn is_signal(&mut self, value: &Bare<'js>) -> Result<bool, Error> {
        Ok(self.home_of_signal(value)?.is_some())
    }

    fn abort_reason(&mut self, signal: &Bare<'js>) -> Result<Option<Bare<'js>>, Error> {
        let Some(home) = self.home_of_signal(signal)? else { return Ok(None) };
        let signal = signal.value(self.ctx());
        if !home.hooks.aborted.call((signal.clone(),))? {
            return Ok(None);
        }
        let reason: Value<'js> = home.hooks.reason.call((signal,))?;
        Ok(Some(reason.into()))
    }

    fn add_abort_algorithm(
        &mut self,
        signal: &Bare<'js>,
        key: RequestKey,
    ) -> Result<Bare<'js>, Error> {
        let Some(home) = self.home_of_signal(signal)? else { return Ok(self.undefined()) };
        let algorithm = self.native(Operation::Abort { key, signal: signal.clone() })?;
        let (signal, algorithm) = (signal.value(self.ctx()), algorithm.value(self.ctx()));
        let algorithm: Value<'js> = home.hooks.add.call((signal, algorithm))?;
        Ok(algorithm.into())
    }

    fn remove_abort_algorithm(
        &mut self,
        signal: &Bare<'js>,
        algorithm: &Bare<'js>,
    ) -> Result<(), Error> {
        let Some(home) = self.home_of_signal(signal)? else { return Ok(()) };
        home.hooks.remove.call((signal.value(self.ctx()), algorithm.value(self.ctx())))
    }
}

/// A property like those that `CreateDataProperty` makes.
fn data_property(value: Value<'_>) -> Property<Value<'_>> {
    Property::from(value).writable().enumerable().configurable()
}
