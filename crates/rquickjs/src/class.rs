//! Classes whose objects have a content in Rust.
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
/// rquickjs's own classes are not used: each has one prototype for all contexts of a runtime, and
/// that prototype keeps the first context until the runtime ends.
#[derive(Clone, Copy)]
pub(crate) struct Classes {
    /// The class of homes, lock managers and locks.
    pub(crate) object: JSClassID,
    pub(crate) function: JSClassID,
    pub(crate) refusal: JSClassID,
}

// SAFETY: a `Classes` has no value of QuickJS.
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

/// Defines the class whose objects have contents of this type.
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
    // SAFETY: the class id is new. QuickJS copies the definition. The definition points only to
    // things that live for ever, and QuickJS only reads these.
    let status = unsafe {
        let runtime = runtime(ctx).as_ptr();
        qjs::JS_NewClassID(runtime, &raw mut id);
        qjs::JS_NewClass(runtime, id, &raw const class)
    };
    if status < 0 { Err(exception(ctx)) } else { Ok(id) }
}

/// An object with this content.
///
/// FAST: QuickJS's own allocator allocates the content. With a second allocator, the code of a
/// request would not fit into the instruction cache.
pub(crate) fn instance<'js, C: Class>(
    classes: Classes,
    prototype: &Value<'js>,
    content: C,
) -> Result<Bare<'js>> {
    let ctx = prototype.ctx();
    // QuickJS's memory is aligned for pointers, because QuickJS's own objects need that.
    const { assert!(align_of::<C>() <= 8) };
    // SAFETY: the prototype lives, and the place is large enough for the content. From here on, the
    // object has a value of this type in a place of its own.
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
    // SAFETY: the content of an object of this class has this type. Before the content is set, the
    // pointer is null. The content lives until the object is finalized, and it is never changed.
    unsafe { qjs::JS_GetOpaque(value.raw, C::id(classes)).cast::<C>().as_ref() }
}

unsafe extern "C" fn finalize<C>(runtime: *mut JSRuntime, object: JSValueConst) {
    // SAFETY: the content of an object of this class has this type and a place of its own, or the
    // pointer is null.
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
/// The object's class is the one whose objects have contents of this type. The pointer is null if
/// the content is not set yet.
pub(crate) unsafe fn opaque<C>(object: JSValueConst) -> *mut C {
    let mut class = 0;
    // SAFETY: as `# Safety` demands.
    unsafe { qjs::JS_GetAnyOpaque(object, &raw mut class).cast() }
}
