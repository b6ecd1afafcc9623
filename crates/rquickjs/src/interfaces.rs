//! The interfaces, as WebIDL has them in JavaScript.

use navlock::{Mode, ResourceName};
use rquickjs::{
    Class, Constructor, Ctx, Function, JsLifetime, Object, Result, Value,
    atom::PredefinedAtom,
    class::{JsClass, Readable, Trace, Tracer},
    object::{AsProperty, Property, PropertyFlags},
    qjs,
};

use crate::{
    function::{Native, Operation},
    home::{HomeObject, instance},
};

/// An object with the interface `LockManager`.
///
/// Spec: <https://w3c.github.io/web-locks/#api-lock-manager>
#[derive(JsLifetime)]
pub(crate) struct ManagerObject<'js> {
    pub(crate) home: Class<'js, HomeObject<'js>>,
    /// Of which agent.
    pub(crate) number: usize,
}

/// An object with the interface `Lock`.
///
/// Spec: <https://w3c.github.io/web-locks/#api-lock>
#[derive(JsLifetime)]
pub(crate) struct LockObject {
    pub(crate) name: ResourceName,
    pub(crate) mode: Mode,
}

/// Defines the interfaces `LockManager` and `Lock` in the context.
pub(crate) fn define<'js>(home: &Class<'js, HomeObject<'js>>) -> Result<()> {
    let (managers, locks) = {
        let home = &home.borrow().0;
        (home.manager_prototype.clone(), home.lock_prototype.clone())
    };
    interface(home, "LockManager", &managers)?;
    method(home, &managers, "request", 2, Operation::Request)?;
    method(home, &managers, "query", 0, Operation::Query)?;
    interface(home, "Lock", &locks)?;
    attribute(home, &locks, "name", Operation::LockName)?;
    attribute(home, &locks, "mode", Operation::LockMode)
}

/// Has `navigator.locks` be this lock manager.
///
/// Spec: <https://w3c.github.io/web-locks/#navigator-mixins>
pub(crate) fn define_navigator<'js>(
    home: &Class<'js, HomeObject<'js>>,
    locks: Object<'js>,
) -> Result<()> {
    let ctx = home.ctx();
    let globals = ctx.globals();
    let navigator: Value<'js> = globals.get("navigator")?;
    let (navigator, prototype) = if let Some(navigator) = navigator.into_object() {
        // The host's own: an object of some class, or a plain one.
        let plain = Object::new(ctx.clone())?.get_prototype();
        let prototype = navigator.get_prototype().filter(|own| Some(own) != plain.as_ref());
        let prototype = prototype.unwrap_or_else(|| navigator.clone());
        (navigator, prototype)
    } else {
        let prototype = Object::new(ctx.clone())?;
        interface(home, "Navigator", &prototype)?;
        let navigator = Object::new_proto(ctx.clone(), Some(&prototype))?;
        attribute(home, &globals, "navigator", Operation::Navigator)?;
        (navigator, prototype)
    };
    // Registered once for each context.
    let _ = home.borrow().0.navigator.set((navigator, locks));
    attribute(home, &prototype, "locks", Operation::Locks)
}

/// Spec: <https://webidl.spec.whatwg.org/#interface-object>,
/// <https://webidl.spec.whatwg.org/#interface-prototype-object>
fn interface<'js>(
    home: &Class<'js, HomeObject<'js>>,
    name: &str,
    prototype: &Object<'js>,
) -> Result<()> {
    let constructor = function(home, name, 0, Operation::Illegal)?.with_constructor(true);
    constructor.prop(PredefinedAtom::Prototype, Property::from(prototype.clone()))?;
    let hidden = Property::from(constructor.clone()).writable().configurable();
    prototype.prop(PredefinedAtom::Constructor, hidden)?;
    let tag = Property::from(name).configurable();
    prototype.prop(PredefinedAtom::SymbolToStringTag, tag)?;
    home.ctx().globals().prop(name, Property::from(constructor).writable().configurable())
}

/// Spec: <https://webidl.spec.whatwg.org/#define-the-operations>
fn method<'js>(
    home: &Class<'js, HomeObject<'js>>,
    on: &Object<'js>,
    name: &str,
    length: usize,
    operation: Operation<'js>,
) -> Result<()> {
    let function = function(home, name, length, operation)?;
    on.prop(name, Property::from(function).writable().enumerable().configurable())
}

/// Spec: <https://webidl.spec.whatwg.org/#define-the-attributes>
fn attribute<'js>(
    home: &Class<'js, HomeObject<'js>>,
    on: &Object<'js>,
    name: &str,
    getter: Operation<'js>,
) -> Result<()> {
    on.prop(name, Getter(function(home, &format!("get {name}"), 0, getter)?))
}

fn function<'js>(
    home: &Class<'js, HomeObject<'js>>,
    name: &str,
    length: usize,
    operation: Operation<'js>,
) -> Result<Function<'js>> {
    Native::function(home, 0, operation)?.with_length(length)?.with_name(name)
}

/// An accessor property, enumerable and configurable, without a setter.
struct Getter<'js>(Function<'js>);

impl<'js> AsProperty<'js, ()> for Getter<'js> {
    fn config(self, ctx: &Ctx<'js>) -> Result<(PropertyFlags, Value<'js>, Value<'js>, Value<'js>)> {
        const FLAGS: u32 = qjs::JS_PROP_HAS_GET
            | qjs::JS_PROP_HAS_SET
            | qjs::JS_PROP_HAS_ENUMERABLE
            | qjs::JS_PROP_ENUMERABLE
            | qjs::JS_PROP_HAS_CONFIGURABLE
            | qjs::JS_PROP_CONFIGURABLE;
        let undefined = Value::new_undefined(ctx.clone());
        Ok((FLAGS.cast_signed(), undefined.clone(), self.0.into_value(), undefined))
    }
}

/// Another lock manager object: that of the agent with this number.
pub(crate) fn lock_manager<'js>(
    home: &Class<'js, HomeObject<'js>>,
    number: usize,
) -> Result<Object<'js>> {
    let prototype = home.borrow().0.manager_prototype.clone();
    let manager = instance(prototype, ManagerObject { home: home.clone(), number })?;
    Ok(manager.into_inner())
}

impl<'js> Trace<'js> for ManagerObject<'js> {
    fn trace<'a>(&self, tracer: Tracer<'a, 'js>) {
        self.home.trace(tracer);
    }
}

impl<'js> Trace<'js> for LockObject {
    fn trace<'a>(&self, _: Tracer<'a, 'js>) {}
}

impl<'js> JsClass<'js> for ManagerObject<'js> {
    const NAME: &'static str = "LockManager";

    type Mutable = Readable;

    fn prototype(_: &Ctx<'js>) -> Result<Option<Object<'js>>> {
        Ok(None)
    }

    fn constructor(_: &Ctx<'js>) -> Result<Option<Constructor<'js>>> {
        Ok(None)
    }
}

impl<'js> JsClass<'js> for LockObject {
    const NAME: &'static str = "Lock";

    type Mutable = Readable;

    fn prototype(_: &Ctx<'js>) -> Result<Option<Object<'js>>> {
        Ok(None)
    }

    fn constructor(_: &Ctx<'js>) -> Result<Option<Constructor<'js>>> {
        Ok(None)
    }
}
