//! The interfaces, as WebIDL has them in JavaScript.

use rquickjs::{
    Ctx, Function, Object, Result, Value,
    atom::PredefinedAtom,
    object::{AsProperty, Property, PropertyFlags},
    qjs,
};

use crate::{
    function::{Native, Operation},
    home::{HomeObject, Navigator},
    raw::Bare,
};

/// Defines the interfaces `LockManager` and `Lock` in the context.
pub(crate) fn define(home: &HomeObject<'_>) -> Result<()> {
    let (managers, locks) = (&home.manager_prototype, &home.lock_prototype);
    interface(home, "LockManager", managers)?;
    method(home, managers, "request", 2, Operation::Request)?;
    method(home, managers, "query", 0, Operation::Query)?;
    interface(home, "Lock", locks)?;
    attribute(home, locks, "name", Operation::LockName)?;
    attribute(home, locks, "mode", Operation::LockMode)
}

/// Makes this lock manager `navigator.locks`.
///
/// Spec: <https://w3c.github.io/web-locks/#navigator-mixins>
pub(crate) fn define_navigator<'js>(
    home: &HomeObject<'js>,
    locks: &Bare<'js>,
    number: usize,
) -> Result<()> {
    let ctx = &home.ctx;
    let globals = ctx.globals();
    let navigator: Value<'js> = globals.get("navigator")?;
    let (object, prototype) = if let Some(navigator) = navigator.into_object() {
        // The host has its own `navigator`: an object of some class, or a plain object.
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
    attribute(home, &prototype, "locks", Operation::Locks)?;
    // This is set once for each context, after all of it is defined.
    let object = Bare::from(object.into_value());
    let _ = home.navigator.set(Navigator { object, locks: locks.clone(), number });
    Ok(())
}

/// Spec: <https://webidl.spec.whatwg.org/#interface-object>,
/// <https://webidl.spec.whatwg.org/#interface-prototype-object>
fn interface<'js>(home: &HomeObject<'js>, name: &str, prototype: &Object<'js>) -> Result<()> {
    let constructor = function(home, name, 0, Operation::Illegal)?.with_constructor(true);
    constructor.prop(PredefinedAtom::Prototype, Property::from(prototype.clone()))?;
    let hidden = Property::from(constructor.clone()).writable().configurable();
    prototype.prop(PredefinedAtom::Constructor, hidden)?;
    let tag = Property::from(name).configurable();
    prototype.prop(PredefinedAtom::SymbolToStringTag, tag)?;
    home.ctx.globals().prop(name, Property::from(constructor).writable().configurable())
}

/// Spec: <https://webidl.spec.whatwg.org/#define-the-operations>
fn method<'js>(
    home: &HomeObject<'js>,
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
    home: &HomeObject<'js>,
    on: &Object<'js>,
    name: &str,
    getter: Operation<'js>,
) -> Result<()> {
    on.prop(name, Getter(function(home, &format!("get {name}"), 0, getter)?))
}

fn function<'js>(
    home: &HomeObject<'js>,
    name: &str,
    length: usize,
    operation: Operation<'js>,
) -> Result<Function<'js>> {
    let function = Native::function(home, 0, operation)?.value(&home.ctx);
    Function::from_value(function)?.with_length(length)?.with_name(name)
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
