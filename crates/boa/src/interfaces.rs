//! The interface objects, as Web IDL has them.

use std::rc::Rc;

use boa_engine::{
    Context, Finalize, JsData, JsNativeError, JsObject, JsResult, JsString, JsSymbol, JsValue,
    NativeFunction, Trace, js_string,
    native_function::NativeFunctionPointer,
    object::{ConstructorBuilder, FunctionObjectBuilder, builtins::JsPromise},
    property::{Attribute, PropertyDescriptor},
};
use navlock::{Mode, ResourceName};

use crate::{
    agent::{Agent, WeakAgent},
    home::Home,
};

/// What makes an object a `Lock`.
#[derive(Trace, Finalize, JsData)]
struct Lock {
    #[unsafe_ignore_trace]
    name: ResourceName,
    #[unsafe_ignore_trace]
    mode: Mode,
}

/// What makes an object a `LockManager`.
#[derive(Trace, Finalize, JsData)]
struct LockManager(WeakAgent);

/// Defines the interface `Lock`. Returns its prototype.
///
/// Spec: <https://w3c.github.io/web-locks/#api-lock>
pub(crate) fn define_lock(context: &mut Context) -> JsResult<JsObject> {
    let prototype = define("Lock", context)?;
    attribute(
        &prototype,
        "name",
        |this, _, _| {
            read(this, |lock| {
                let units: Vec<u16> = lock.name.utf16().collect();
                JsString::from(&units[..])
            })
        },
        context,
    )?;
    attribute(
        &prototype,
        "mode",
        |this, _, _| {
            read(this, |lock| match lock.mode {
                Mode::Exclusive => js_string!("exclusive"),
                Mode::Shared => js_string!("shared"),
            })
        },
        context,
    )?;
    Ok(prototype)
}

/// Defines the interface `LockManager`. Returns its prototype.
///
/// Spec: <https://w3c.github.io/web-locks/#api-lock-manager>
pub(crate) fn define_lock_manager(context: &mut Context) -> JsResult<JsObject> {
    let prototype = define("LockManager", context)?;
    operation(
        &prototype,
        "request",
        2,
        |this, arguments, context| {
            let Some(agent) = agent_of(this, context)? else {
                return illegal_invocation("request", context);
            };
            agent.enter(context, |boa| agent.requests.request(boa, arguments))
        },
        context,
    )?;
    operation(
        &prototype,
        "query",
        0,
        |this, _, context| {
            let Some(agent) = agent_of(this, context)? else {
                return illegal_invocation("query", context);
            };
            agent.enter(context, |boa| agent.requests.query(boa))
        },
        context,
    )?;
    Ok(prototype)
}

/// A `Lock`.
pub(crate) fn lock(home: &Home, name: ResourceName, mode: Mode) -> JsValue {
    JsObject::from_proto_and_data(home.lock.clone(), Lock { name, mode }).into()
}

impl Agent {
    /// The `LockManager`.
    pub(crate) fn object(self: &Rc<Self>) -> JsResult<JsObject> {
        let home = self.home()?;
        let mut object = self.object.borrow_mut();
        Ok(object.get_or_insert_with(|| lock_manager(&home, self)).clone())
    }
}

/// The `LockManager` of an agent.
fn lock_manager(home: &Home, agent: &Rc<Agent>) -> JsObject {
    let data = LockManager(WeakAgent::of(agent));
    JsObject::from_proto_and_data(home.lock_manager.clone(), data)
}

/// Makes this object `navigator.locks` in the current realm. Makes `navigator` too if there is none.
///
/// Spec: <https://w3c.github.io/web-locks/#navigator-mixins>
pub(crate) fn install(locks: JsObject, context: &mut Context) -> JsResult<()> {
    let global = context.global_object();
    let navigator = global.get(js_string!("navigator"), context)?;
    let navigator = match navigator.as_object() {
        Some(navigator) => navigator,
        None => make_navigator(&global, context)?,
    };
    // The attribute goes on the interface of `navigator`, if that has one of its own.
    let plain = context.intrinsics().constructors().object().prototype();
    let target = navigator.prototype().filter(|prototype| *prototype != plain);
    let target = target.unwrap_or_else(|| navigator.clone());
    let getter = NativeFunction::from_copy_closure_with_captures(
        |this, _, (navigator, locks): &(JsObject, JsObject), _| {
            if this.as_object().as_ref() == Some(navigator) {
                return Ok(locks.clone().into());
            }
            Err(illegal("navigator.locks was read of what is no Navigator"))
        },
        (navigator, locks),
    );
    accessor(&target, "locks", getter, context)
}

/// A `navigator` without attributes.
///
/// Spec: <https://html.spec.whatwg.org/multipage/system-state.html#the-navigator-object>
fn make_navigator(global: &JsObject, context: &mut Context) -> JsResult<JsObject> {
    let prototype = define("Navigator", context)?;
    let navigator = JsObject::from_proto_and_data(prototype, ());
    let getter = NativeFunction::from_copy_closure_with_captures(
        |_, _, navigator: &JsObject, _| Ok(navigator.clone().into()),
        navigator.clone(),
    );
    accessor(global, "navigator", getter, context)?;
    Ok(navigator)
}

/// Defines an interface that scripts cannot construct. Returns its prototype.
///
/// Spec: <https://webidl.spec.whatwg.org/#interface-object>
fn define(name: &'static str, context: &mut Context) -> JsResult<JsObject> {
    let refuse = NativeFunction::from_fn_ptr(|_, _, _| Err(illegal("Illegal constructor")));
    let mut builder = ConstructorBuilder::new(context, refuse);
    builder.name(name);
    builder.property(JsSymbol::to_string_tag(), JsString::from(name), Attribute::CONFIGURABLE);
    let interface = builder.build();
    let attributes = Attribute::WRITABLE | Attribute::CONFIGURABLE;
    context.register_global_property(JsString::from(name), interface.constructor(), attributes)?;
    Ok(interface.prototype())
}

/// Spec: <https://webidl.spec.whatwg.org/#define-the-operations>
fn operation(
    prototype: &JsObject,
    name: &'static str,
    length: usize,
    steps: NativeFunctionPointer,
    context: &mut Context,
) -> JsResult<()> {
    let name = JsString::from(name);
    let function = FunctionObjectBuilder::new(context.realm(), NativeFunction::from_fn_ptr(steps))
        .name(name.clone())
        .length(length)
        .build();
    let property = PropertyDescriptor::builder()
        .value(function)
        .writable(true)
        .enumerable(true)
        .configurable(true);
    prototype.define_property_or_throw(name, property, context).map(drop)
}

fn attribute(
    prototype: &JsObject,
    name: &'static str,
    getter: NativeFunctionPointer,
    context: &mut Context,
) -> JsResult<()> {
    accessor(prototype, name, NativeFunction::from_fn_ptr(getter), context)
}

/// Spec: <https://webidl.spec.whatwg.org/#define-the-attributes>
fn accessor(
    target: &JsObject,
    name: &'static str,
    getter: NativeFunction,
    context: &mut Context,
) -> JsResult<()> {
    let getter = FunctionObjectBuilder::new(context.realm(), getter)
        .name(JsString::from(format!("get {name}")))
        .build();
    let property = PropertyDescriptor::builder().get(getter).enumerable(true).configurable(true);
    target.define_property_or_throw(JsString::from(name), property, context).map(drop)
}

fn read(this: &JsValue, attribute: impl FnOnce(&Lock) -> JsString) -> JsResult<JsValue> {
    let object = this.as_object();
    let lock = object.as_ref().and_then(JsObject::downcast_ref::<Lock>);
    match lock {
        Some(lock) => Ok(attribute(&lock).into()),
        None => Err(illegal("an attribute of a Lock was read of what is no Lock")),
    }
}

/// The agent of `this`, if `this` is a lock manager.
fn agent_of(this: &JsValue, context: &mut Context) -> JsResult<Option<Rc<Agent>>> {
    let object = this.as_object();
    let Some(manager) = object.as_ref().and_then(JsObject::downcast_ref::<LockManager>) else {
        return Ok(None);
    };
    match manager.0.upgrade() {
        Some(agent) => Ok(Some(agent)),
        None => Home::of(context).map(Agent::ended).map(Some),
    }
}

/// The same as `navlock_js::illegal_invocation`, for a `this` without an agent.
fn illegal_invocation(function: &str, context: &mut Context) -> JsResult<JsValue> {
    let (promise, functions) = JsPromise::new_pending(context);
    let message = format!("{function}() was called on what is no LockManager");
    let reason = JsNativeError::typ().with_message(message).into_opaque(context);
    functions.reject.call(&JsValue::undefined(), &[reason.into()], context)?;
    Ok(promise.into())
}

fn illegal(message: &'static str) -> boa_engine::JsError {
    JsNativeError::typ().with_message(message).into()
}
