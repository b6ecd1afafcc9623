//! Rejects a promise through the function that resolves it.

#![expect(unsafe_code, reason = "what QuickJS asks of C")]

use std::cell::RefCell;

use rquickjs::{
    Ctx, Error, Result, Value,
    qjs::{self, JSClassID, JSContext, JSValue, JSValueConst},
};

use crate::{
    class::{Class, Classes, content, instance, opaque},
    collector::{Collector, Show},
    raw::Bare,
};

/// The content of one object. While [`refuse`] rejects a promise, this is the reason.
pub(crate) struct Refusal<'js>(RefCell<Option<Bare<'js>>>);

/// Reading any property of a [`Refusal`] throws the reason.
pub(crate) static REFUSING: qjs::JSClassExoticMethods = qjs::JSClassExoticMethods {
    get_own_property: None,
    get_own_property_names: None,
    delete_property: None,
    define_own_property: None,
    has_property: None,
    get_property: Some(throw_reason),
    set_property: None,
};

/// Makes the object for [`refuse`].
pub(crate) fn refusal<'js>(classes: Classes, prototype: &Value<'js>) -> Result<Bare<'js>> {
    instance(classes, prototype, Refusal(RefCell::default()))
}

/// Rejects a promise through the function that resolves it. `resolve` calls that function with the
/// object.
///
/// A promise that is resolved with an object reads the object's `then`. If this read throws an
/// error, the promise is rejected with the error at once, exactly as by the function that rejects.
///
/// Spec: <https://tc39.es/ecma262/#sec-promise-resolve-functions>, step 10.
pub(crate) fn refuse<'js>(
    ctx: &Ctx<'js>,
    classes: Classes,
    object: &Bare<'js>,
    reason: Bare<'js>,
    resolve: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let refusal: Option<&Refusal<'js>> = content(classes, object);
    let Some(Refusal(place)) = refusal else { return Err(Error::Unknown) };
    // The read of `then` throws, and this would replace an earlier exception. The caller still
    // needs the earlier one, which says why a script was stopped.
    let before = ctx.has_exception().then(|| ctx.catch());
    place.replace(Some(reason));
    let resolved = resolve();
    // The reason is still there if nothing read `then`: the call was interrupted, or the promise
    // was settled before.
    let left = place.take();
    drop(left);
    if let Some(before) = before {
        ctx.throw(before);
    }
    resolved
}

unsafe extern "C" fn throw_reason(
    context: *mut JSContext,
    object: JSValueConst,
    _: qjs::JSAtom,
    _: JSValueConst,
) -> JSValue {
    // SAFETY: the content of an object of this class is a `Refusal`. `JS_Throw` takes over the
    // reference to the reason.
    unsafe {
        let refusal = opaque::<Refusal<'_>>(object).as_ref();
        match refusal.and_then(|Refusal(place)| place.take()) {
            Some(reason) => qjs::JS_Throw(context, reason.into_raw()),
            None => qjs::JS_UNDEFINED,
        }
    }
}

// SAFETY: `Classes::of` defines this class with such contents.
unsafe impl Class for Refusal<'_> {
    fn id(classes: Classes) -> JSClassID {
        classes.refusal
    }
}

impl Show for Refusal<'_> {
    fn show(&self, collector: &Collector) {
        let Ok(reason) = self.0.try_borrow() else { return };
        reason.iter().for_each(|reason| collector.see(reason));
    }
}
