//! The functions that scripts and QuickJS call.

use navlock_js::{Engine, RequestKey};
use rquickjs::{
    Class, Constructor, Ctx, Function, JsLifetime, Object, Result, Value,
    class::{ClassKind, JsCell, JsClass, Readable, Trace, Tracer},
    function::Params,
};

use crate::{
    engine::Quick,
    home::{HomeObject, instance},
    interfaces::LockObject,
    locks::Locks,
};

/// A function of this crate.
///
/// Not `Function::new`: what that keeps QuickJS does not see, and see [`instance`].
#[derive(JsLifetime)]
pub(crate) struct Native<'js> {
    home: Class<'js, HomeObject<'js>>,
    /// Of which agent, where it is one of an agent.
    number: usize,
    operation: Operation<'js>,
}

/// What a function does.
#[derive(JsLifetime)]
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
    /// What a callback has returned is settled, with the argument.
    Settle {
        /// For this request.
        key: RequestKey,
        /// How.
        is_fulfilled: bool,
    },
    /// The signal of a request has aborted.
    Abort {
        /// Of this request.
        key: RequestKey,
        /// That one.
        signal: Value<'js>,
    },
}

impl<'js> Native<'js> {
    /// The function, without a name or a length.
    pub(crate) fn function(
        home: &Class<'js, HomeObject<'js>>,
        number: usize,
        operation: Operation<'js>,
    ) -> Result<Function<'js>> {
        let prototype = Function::prototype(home.ctx().clone());
        let native = Self { home: home.clone(), number, operation };
        Function::from_value(instance(prototype, native)?.into_value())
    }

    fn run(&self, params: &Params<'_, 'js>) -> Result<Value<'js>> {
        let own = || Quick::new(&self.home, self.number);
        let refuse = |function| navlock_js::illegal_invocation(&mut own(), function);
        let mut engine = match &self.operation {
            Operation::Request => match manager(params) {
                Some(engine) => engine,
                None => return refuse("request"),
            },
            Operation::Query => match manager(params) {
                Some(engine) => engine,
                None => return refuse("query"),
            },
            _ => own(),
        };
        match &self.operation {
            Operation::Request => {
                let arguments: Vec<_> = (0..params.len()).filter_map(|at| params.arg(at)).collect();
                let promise = engine.realm().request(&mut engine, &arguments);
                engine.spawn();
                promise
            }
            Operation::Query => {
                let promise = engine.realm().query(&mut engine);
                engine.spawn();
                promise
            }
            Operation::LockName | Operation::LockMode => {
                let this = params.this();
                let Some(lock) = this.as_object().and_then(Object::as_class::<LockObject>) else {
                    return Err(engine.throw_type_error("this is no Lock"));
                };
                let lock = lock.borrow();
                let units: Vec<u16> = match self.operation {
                    Operation::LockName => lock.name.utf16().collect(),
                    _ => lock.mode.as_str().encode_utf16().collect(),
                };
                engine.string(&units)
            }
            Operation::Navigator => match engine.home.navigator.get() {
                Some((navigator, _)) => Ok(navigator.clone().into_value()),
                None => Ok(engine.undefined()),
            },
            Operation::Locks => match engine.home.navigator.get() {
                Some((navigator, locks)) if *navigator.as_value() == params.this() => {
                    Ok(locks.clone().into_value())
                }
                _ => Err(engine.throw_type_error("this is no Navigator")),
            },
            Operation::Illegal => Err(engine.throw_type_error("Illegal constructor")),
            Operation::Settle { key, is_fulfilled } => {
                let outcome = params.arg(0).unwrap_or_else(|| engine.undefined());
                let outcome = if *is_fulfilled { Ok(outcome) } else { Err(outcome) };
                engine.realm().settle(&mut engine, *key, outcome)?;
                Ok(engine.undefined())
            }
            Operation::Abort { key, signal } => {
                if let Some(reason) = engine.abort_reason(signal)? {
                    engine.realm().abort(&mut engine, *key, reason)?;
                }
                Ok(engine.undefined())
            }
        }
    }
}

/// The agent whose lock manager a function is called on.
fn manager<'js>(params: &Params<'_, 'js>) -> Option<Quick<'js>> {
    Some(Locks::of_object(params.this().as_object()?)?.engine)
}

impl<'js> JsClass<'js> for Native<'js> {
    const NAME: &'static str = "NavlockFunction";

    const KIND: ClassKind = ClassKind::Callable;

    type Mutable = Readable;

    fn prototype(_: &Ctx<'js>) -> Result<Option<Object<'js>>> {
        Ok(None)
    }

    fn constructor(_: &Ctx<'js>) -> Result<Option<Constructor<'js>>> {
        Ok(None)
    }

    fn call<'a>(this: &JsCell<'js, Self>, params: Params<'a, 'js>) -> Result<Value<'js>> {
        this.borrow().run(&params)
    }
}

impl<'js> Trace<'js> for Native<'js> {
    fn trace<'a>(&self, tracer: Tracer<'a, 'js>) {
        self.home.trace(tracer);
        if let Operation::Abort { signal, .. } = &self.operation {
            signal.trace(tracer);
        }
    }
}
