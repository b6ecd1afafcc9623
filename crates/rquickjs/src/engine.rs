//! QuickJS, as `navlock-js` asks for an engine.

use std::rc::Rc;

use navlock::{Mode, ResourceName};
use navlock_js::{Engine, RequestKey};
use rquickjs::{
    Array, Class, Coerced, Constructor, Ctx, Error, FromJs, Function, Object, Promise, String,
    Value,
    atom::PredefinedAtom,
    class::{Trace, Tracer},
    function::{Args, This},
    object::Property,
};

use crate::{
    drive::Drive,
    function::{Native, Operation},
    home::{Agent, Home, HomeObject, QuickRealm, instance},
    interfaces::LockObject,
};

/// QuickJS, for one agent of a context.
#[derive(Clone)]
pub(crate) struct Quick<'js> {
    // Dropped before what its values live by.
    pub(crate) home: Rc<Home<'js>>,
    pub(crate) object: Class<'js, HomeObject<'js>>,
    /// The agent's place in its home.
    pub(crate) number: usize,
}

/// What settles a promise.
pub(crate) struct Deferred<'js> {
    resolve: Function<'js>,
    reject: Function<'js>,
}

impl<'js> Trace<'js> for Deferred<'js> {
    fn trace<'a>(&self, tracer: Tracer<'a, 'js>) {
        self.resolve.trace(tracer);
        self.reject.trace(tracer);
    }
}

impl<'js> Quick<'js> {
    pub(crate) fn new(object: &Class<'js, HomeObject<'js>>, number: usize) -> Self {
        let home = Rc::clone(&object.borrow().0);
        Self { home, object: object.clone(), number }
    }

    pub(crate) fn ctx(&self) -> &Ctx<'js> {
        &self.home.ctx
    }

    pub(crate) fn agent(&self) -> Agent<'js> {
        self.home.agent(self.number)
    }

    pub(crate) fn drive(&self) -> Rc<Drive> {
        self.home.drive(self.number)
    }

    pub(crate) fn realm(&self) -> QuickRealm<'js> {
        self.home.realm(self.number)
    }

    /// Whose signal it is: this context's, or that of another context of the runtime.
    fn home_of_signal(
        &self,
        value: &Value<'js>,
    ) -> Result<Option<Class<'js, HomeObject<'js>>>, Error> {
        let is_signal_of =
            |home: &Home<'js>| home.hooks.is_signal.call::<_, bool>((value.clone(),));
        if is_signal_of(&self.home)? {
            return Ok(Some(self.object.clone()));
        }
        for other in Home::all(self.ctx()) {
            if other != self.object && is_signal_of(&other.borrow().0)? {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    /// A function that scripts do not see, for something of this agent's.
    fn native(&self, operation: Operation<'js>) -> Result<Function<'js>, Error> {
        Native::function(&self.object, self.number, operation)
    }

    /// The error that it is to throw a `TypeError`.
    pub(crate) fn throw_type_error(&mut self, message: &str) -> Error {
        match self.type_error(message) {
            Ok(error) => self.throw(error),
            Err(error) => error,
        }
    }

    /// The error that a string cannot be had with: what QuickJS has thrown, if it has.
    fn failed(&self, error: Error) -> Error {
        if self.ctx().has_exception() { Error::Exception } else { error }
    }

    fn text(&self, text: &str) -> Result<Value<'js>, Error> {
        Ok(String::from_str(self.ctx().clone(), text)?.into_value())
    }
}

impl<'js> Engine for Quick<'js> {
    type Value = Value<'js>;
    type Deferred = Deferred<'js>;
    type Error = Error;

    fn undefined(&mut self) -> Value<'js> {
        Value::new_undefined(self.ctx().clone())
    }

    fn null(&mut self) -> Value<'js> {
        Value::new_null(self.ctx().clone())
    }

    fn is_undefined(&mut self, value: &Value<'js>) -> bool {
        value.is_undefined()
    }

    fn is_null(&mut self, value: &Value<'js>) -> bool {
        value.is_null()
    }

    fn is_object(&mut self, value: &Value<'js>) -> bool {
        value.is_object()
    }

    fn is_callable(&mut self, value: &Value<'js>) -> bool {
        value.is_function()
    }

    fn to_boolean(&mut self, value: &Value<'js>) -> bool {
        // It fails for what was thrown alone, and that is no value.
        Coerced::<bool>::from_js(self.ctx(), value.clone()).is_ok_and(|is_true| is_true.0)
    }

    fn to_utf16(&mut self, value: &Value<'js>) -> Result<Vec<u16>, Error> {
        let Coerced(string) = Coerced::<String<'js>>::from_js(self.ctx(), value.clone())?;
        match string.to_string() {
            Ok(text) => Ok(text.encode_utf16().collect()),
            // A lone surrogate.
            Err(Error::Utf8(_)) => {
                let tools = &self.home.tools;
                let length: u32 = tools.length.call((string.clone(),))?;
                let unit = |index: u32| tools.unit_at.call((string.clone(), index));
                (0..length).map(unit).collect()
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    fn get(&mut self, object: &Value<'js>, key: &'static str) -> Result<Value<'js>, Error> {
        match object.as_object() {
            Some(object) => object.get(key),
            None => Ok(self.undefined()),
        }
    }

    fn call(&mut self, function: &Value<'js>, argument: Value<'js>) -> Result<Value<'js>, Error> {
        match function.as_function() {
            Some(function) => function.call((argument,)),
            None => Err(self.throw_type_error("what is to be called is no function")),
        }
    }

    fn string(&mut self, units: &[u16]) -> Result<Value<'js>, Error> {
        if let Ok(text) = std::string::String::from_utf16(units) {
            return self.text(&text);
        }
        // By pieces, as a call takes only so many arguments.
        let tools = &self.home.tools;
        let mut string = self.text("")?;
        for piece in units.chunks(1024) {
            let mut arguments = Args::new_unsized(self.ctx().clone());
            arguments.push_args(piece.iter().copied())?;
            let piece: Value<'js> = tools.from_char_code.call_arg(arguments)?;
            string = tools.concatenate.call((string, piece))?;
        }
        Ok(string)
    }

    fn object<const N: usize>(
        &mut self,
        properties: [(&'static str, Value<'js>); N],
    ) -> Result<Value<'js>, Error> {
        let object = Object::new(self.ctx().clone())?;
        for (key, value) in properties {
            object.prop(key, data_property(value))?;
        }
        Ok(object.into_value())
    }

    fn array(&mut self, values: Vec<Value<'js>>) -> Result<Value<'js>, Error> {
        let array = Array::new(self.ctx().clone())?;
        for (index, value) in (0..).zip(values) {
            let index: u32 = index;
            array.as_object().prop(index, data_property(value))?;
        }
        Ok(array.into_value())
    }

    fn lock(&mut self, name: &ResourceName, mode: Mode) -> Result<Value<'js>, Error> {
        let lock = LockObject { name: name.clone(), mode };
        Ok(instance(self.home.lock_prototype.clone(), lock)?.into_value())
    }

    fn type_error(&mut self, message: &str) -> Result<Value<'js>, Error> {
        self.home.tools.type_error.construct((self.text(message)?,))
    }

    fn dom_exception(&mut self, name: &'static str, message: &str) -> Result<Value<'js>, Error> {
        let exception: &Constructor<'js> = &self.home.hooks.dom_exception;
        exception.construct((self.text(message)?, self.text(name)?))
    }

    fn throw(&mut self, value: Value<'js>) -> Error {
        self.ctx().throw(value)
    }

    fn catch(&mut self, error: Error) -> Result<Value<'js>, Error> {
        match self.failed(error) {
            Error::Exception => {
                let thrown = self.ctx().catch();
                if thrown.is_uncatchable_error() {
                    return Err(self.ctx().throw(thrown));
                }
                Ok(thrown)
            }
            // Of rquickjs's own.
            error => self.type_error(&error.to_string()),
        }
    }

    fn new_promise(&mut self) -> Result<(Value<'js>, Deferred<'js>), Error> {
        let (promise, resolve, reject) = Promise::new(self.ctx())?;
        Ok((promise.into_value(), Deferred { resolve, reject }))
    }

    fn resolve(&mut self, deferred: Deferred<'js>, value: Value<'js>) -> Result<(), Error> {
        deferred.resolve.call((value,))
    }

    fn reject(&mut self, deferred: Deferred<'js>, reason: Value<'js>) -> Result<(), Error> {
        deferred.reject.call((reason,))
    }

    fn react(&mut self, value: Value<'js>, key: RequestKey) -> Result<(), Error> {
        let (promise, resolve, _) = Promise::new(self.ctx())?;
        // So that `then` makes a promise of the language's own kind, whatever scripts have made of
        // `Promise.prototype.constructor`. No script ever sees this one.
        promise.prop(PredefinedAtom::Constructor, Property::from(self.undefined()))?;
        let fulfilled = self.native(Operation::Settle { key, is_fulfilled: true })?;
        let rejected = self.native(Operation::Settle { key, is_fulfilled: false })?;
        let then = &self.home.tools.then;
        then.call::<_, Value<'js>>((This(promise), fulfilled, rejected))?;
        // Handled by now, so that a rejection is nobody's concern.
        resolve.call((value,))
    }

    fn is_signal(&mut self, value: &Value<'js>) -> Result<bool, Error> {
        Ok(self.home_of_signal(value)?.is_some())
    }

    fn abort_reason(&mut self, signal: &Value<'js>) -> Result<Option<Value<'js>>, Error> {
        let Some(home) = self.home_of_signal(signal)? else { return Ok(None) };
        let hooks = &home.borrow().0.hooks;
        if !hooks.aborted.call((signal.clone(),))? {
            return Ok(None);
        }
        hooks.reason.call((signal.clone(),)).map(Some)
    }

    fn add_abort_algorithm(
        &mut self,
        signal: &Value<'js>,
        key: RequestKey,
    ) -> Result<Value<'js>, Error> {
        let Some(home) = self.home_of_signal(signal)? else { return Ok(self.undefined()) };
        let algorithm = self.native(Operation::Abort { key, signal: signal.clone() })?;
        home.borrow().0.hooks.add.call((signal.clone(), algorithm))
    }

    fn remove_abort_algorithm(
        &mut self,
        signal: &Value<'js>,
        algorithm: &Value<'js>,
    ) -> Result<(), Error> {
        let Some(home) = self.home_of_signal(signal)? else { return Ok(()) };
        home.borrow().0.hooks.remove.call((signal.clone(), algorithm.clone()))
    }
}

/// As `CreateDataProperty` makes it.
fn data_property(value: Value<'_>) -> Property<Value<'_>> {
    Property::from(value).writable().enumerable().configurable()
}
