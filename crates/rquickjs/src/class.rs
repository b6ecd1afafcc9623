//! Classes of objects that have a content in Rust.
//!
//! FAST: see [`raw`](crate::raw).

#![expect(unsafe_code, reason = "what QuickJS asks of C")]

use std::{ffi::CStr, ptr};

use rquickjs::{
    Ctx, Error, JsLifetime, Result, Value,
    qjs::{self, JSClassID, JSRuntime, JSValueConst},
};

use crate::{
    collector::{Collector, Show},
    raw::{Bare, context, exception, given, runtime},
};

/// The classes of this crate in a runtime.
///
/// rquickjs's own classes are not used: each has one prototype for all contexts of a runtime, and that prototype keeps the
/// first context until the runtime ends.
#[derive(Clone, Copy)]
pub(crate) struct Classes {
    /// The class of homes, lock managers and locks.
    pub(crate) object: JSClassID,
    pub(crate) function: JSClassID,
    pub(crate) refusal: JSClassID,
}

// SAFETY: nothing of a context is in it.
unsafe impl JsLifetime<'_> for Classes {
    type Changed<'to> = Self;
}

/// The content of the objects of one class.
///
/// # Safety
///
/// The class is one that [`define`] has made for this type.
pub(crate) unsafe trait Class: Show {
    fn id(classes: Classes) -> JSClassID;
}

/// Defines the class whose objects have such a content.
pub(crate) fn define<C: Class>(
    ctx: &Ctx<'_>,
    name: &'static CStr,
    call: qjs::JSClassCall,
    exotic: Option<&'static qjs::JSClassExoticMethods>,
) -> Result<JSClassID> {
    let class = qjs::JSClassDef {
        class_name: name.as_ptr(),
        finalizer: Some(finalize::<C>),
        gc_mark: Some(mark::<C>),
        call,
        exotic: exotic.map_or(ptr::null_mut(), |exotic| ptr::from_ref(exotic).cast_mut()),
    };
    let mut id = qjs::JS_INVALID_CLASS_ID;
    // SAFETY: the number is a new one. QuickJS copies the definition, and what that points to is
    // there for ever, and only read.
    let status = unsafe {
        let runtime = runtime(ctx).as_ptr();
        qjs::JS_NewClassID(runtime, &raw mut id);
        qjs::JS_NewClass(runtime, id, &raw const class)
    };
    if status < 0 { Err(exception(ctx)) } else { Ok(id) }
}

/// An object with this content.
///
/// FAST: QuickJS's own allocator has the content. With a second allocator, the code of a request would not fit into the
/// cache of instructions.
pub(crate) fn instance<'js, C: Class>(
    classes: Classes,
    prototype: &Value<'js>,
    content: C,
) -> Result<Bare<'js>> {
    let ctx = prototype.ctx();
    // QuickJS's memory is aligned for pointers, as its own objects need it.
    const { assert!(align_of::<C>() <= 8) };
    // SAFETY: the prototype lives, the place is large enough, and an object of this class has a value of
    // this type in such a place from here on.
    unsafe {
        let raw = qjs::JS_NewObjectProtoClass(context(ctx), prototype.as_raw(), C::id(classes));
        let object = given(ctx, runtime(ctx), raw)?;
        let size = size_of::<C>().try_into().map_err(|_| Error::Unknown)?;
        let place: *mut C = qjs::js_malloc(context(ctx), size).cast();
        if place.is_null() {
            return Err(exception(ctx));
        }
        place.write(content);
        qjs::JS_SetOpaque(raw, place.cast());
        Ok(object)
    }
}

/// The content of an object, if the object is of this class.
pub(crate) fn content<'a, C: Class>(classes: Classes, value: &'a Bare<'_>) -> Option<&'a C> {
    // SAFETY: objects of this class have such a content, or none while they are made, until they are
    // finalized; and it is never changed.
    unsafe { qjs::JS_GetOpaque(value.raw, C::id(classes)).cast::<C>().as_ref() }
}

unsafe extern "C" fn finalize<C>(runtime: *mut JSRuntime, object: JSValueConst) {
    // SAFETY: what an object of this class has is such a value, in a place of its own, or none yet.
    unsafe {
        let content = opaque::<C>(object);
        if !content.is_null() {
            content.drop_in_place();
            qjs::js_free_rt(runtime, content.cast());
        }
    }
}

unsafe extern "C" fn mark<C: Show>(
    runtime: *mut JSRuntime,
    object: JSValueConst,
    mark: qjs::JS_MarkFunc,
) {
    // SAFETY: as `finalize`.
    if let Some(content) = unsafe { opaque::<C>(object).as_ref() } {
        content.show(&Collector { runtime, mark });
    }
}

/// # Safety
///
/// The object is of the class whose objects have this, or nothing yet.
pub(crate) unsafe fn opaque<C>(object: JSValueConst) -> *mut C {
    let mut class = 0;
    // SAFETY: said above.
    unsafe { qjs::JS_GetAnyOpaque(object, &raw mut class).cast() }
}
