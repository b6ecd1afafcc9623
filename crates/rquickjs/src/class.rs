//! The classes of this crate: its objects and functions.
//!
//! FAST: see [`raw`](crate::raw).

#![expect(unsafe_code, reason = "what QuickJS asks of C")]

use std::{
    any::Any,
    cell::Cell,
    mem::ManuallyDrop,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr::{self, NonNull},
    rc::{Rc, Weak},
};

use rquickjs::{
    Ctx, Error, Exception, Function, JsLifetime, Result, Value,
    class::Tracer,
    qjs::{self, JSClassID, JSContext, JSRuntime, JSValue, JSValueConst},
};

use crate::{
    function::{Call, Native},
    home::Home,
    interfaces::Content,
    raw::{Bare, context, exception, given, runtime},
};

/// The classes of this crate in a runtime.
///
/// Not those of rquickjs, which has one prototype of each for all contexts of a runtime, and with it keeps the
/// first context until the runtime ends.
#[derive(Clone, Copy)]
pub(crate) struct Classes {
    object: JSClassID,
    function: JSClassID,
}

// SAFETY: nothing of a context is in it.
unsafe impl JsLifetime<'_> for Classes {
    type Changed<'to> = Self;
}

impl Classes {
    pub(crate) fn of(ctx: &Ctx<'_>) -> Result<Self> {
        if let Some(known) = ctx.userdata::<Self>() {
            return Ok(*known);
        }
        let object = qjs::JSClassDef {
            class_name: c"Navlock".as_ptr(),
            finalizer: Some(finalize::<Content<'static>>),
            gc_mark: Some(mark::<Content<'static>>),
            call: None,
            exotic: ptr::null_mut(),
        };
        let function = qjs::JSClassDef {
            class_name: c"NavlockFunction".as_ptr(),
            finalizer: Some(finalize::<Native<'static>>),
            gc_mark: Some(mark::<Native<'static>>),
            call: Some(call),
            exotic: ptr::null_mut(),
        };
        let define = |class| {
            let mut id = qjs::JS_INVALID_CLASS_ID;
            // SAFETY: the number is a new one, and QuickJS copies the definition.
            let status = unsafe {
                let runtime = runtime(ctx).as_ptr();
                qjs::JS_NewClassID(runtime, &raw mut id);
                qjs::JS_NewClass(runtime, id, &raw const class)
            };
            if status < 0 { Err(exception(ctx)) } else { Ok(id) }
        };
        let classes = Self { object: define(object)?, function: define(function)? };
        ctx.store_userdata(classes)?;
        Ok(classes)
    }
}

/// An object with this content.
pub(crate) fn object<'js>(
    classes: Classes,
    prototype: &Value<'js>,
    content: Content<'js>,
) -> Result<Bare<'js>> {
    instance(prototype, classes.object, content)
}

/// A function that does this.
pub(crate) fn function<'js>(
    classes: Classes,
    prototype: &Value<'js>,
    native: Native<'js>,
) -> Result<Bare<'js>> {
    instance(prototype, classes.function, native)
}

fn instance<'js, C: Show>(
    prototype: &Value<'js>,
    class: JSClassID,
    content: C,
) -> Result<Bare<'js>> {
    let ctx = prototype.ctx();
    // SAFETY: the prototype lives, and an object of this class has a `Box` of this type from here on.
    unsafe {
        let raw = qjs::JS_NewObjectProtoClass(context(ctx), prototype.as_raw(), class);
        let object = given(ctx, runtime(ctx), raw)?;
        qjs::JS_SetOpaque(raw, Box::into_raw(Box::new(content)).cast());
        Ok(object)
    }
}

/// What an object with the classes of this crate has.
pub(crate) fn content<'a, 'js>(classes: Classes, value: &'a Bare<'js>) -> Option<&'a Content<'js>> {
    // SAFETY: objects of this class have such a content, or none while they are made, until they are
    // finalized; and it is never changed.
    unsafe { qjs::JS_GetOpaque(value.raw, classes.object).cast::<Content<'js>>().as_ref() }
}

/// The object of a [`Home`], and what it has.
pub(crate) struct HomeObject<'js> {
    object: Bare<'js>,
    home: NonNull<Home<'js>>,
}

impl<'js> HomeObject<'js> {
    pub(crate) fn object(&self) -> &Bare<'js> {
        &self.object
    }

    pub(crate) fn downgrade(&self) -> Weak<Home<'js>> {
        match content(self.classes, &self.object) {
            Some(Content::Home(home)) => Rc::downgrade(home),
            _ => Weak::new(),
        }
    }

    /// An object that has this home.
    pub(crate) fn new(
        classes: Classes,
        prototype: &Value<'js>,
        home: Rc<Home<'js>>,
    ) -> Result<Self> {
        let pointer = NonNull::from(&*home);
        let object = object(classes, prototype, Content::Home(home))?;
        Ok(Self { object, home: pointer })
    }
}

impl<'js> Deref for HomeObject<'js> {
    type Target = Home<'js>;

    fn deref(&self) -> &Home<'js> {
        // SAFETY: the object has it until it is finalized, and lives as long as it is counted here.
        unsafe { self.home.as_ref() }
    }
}

impl Clone for HomeObject<'_> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), home: self.home }
    }
}

/// What shows its values to the collector of garbage.
pub(crate) trait Show {
    fn show(&self, collector: &Collector);
}

/// QuickJS's collector of garbage, which is to be shown each value that is kept, once.
pub(crate) struct Collector {
    runtime: *mut JSRuntime,
    mark: qjs::JS_MarkFunc,
}

impl Collector {
    pub(crate) fn see(&self, value: &Bare<'_>) {
        // SAFETY: both are those that QuickJS has given for the time of this.
        unsafe { qjs::JS_MarkValue(self.runtime, value.raw, self.mark) };
    }

    /// For values of rquickjs, which each show their context as well.
    pub(crate) fn tracer<'js>(&self) -> Tracer<'_, 'js> {
        // SAFETY: as `see`, and it does not outlive this.
        unsafe { Tracer::from_ffi(self.runtime, self.mark) }
    }
}

unsafe extern "C" fn finalize<C>(_: *mut JSRuntime, object: JSValueConst) {
    // SAFETY: what an object of this class has is such a `Box`, or none yet.
    unsafe {
        let content = opaque::<C>(object);
        if !content.is_null() {
            drop(Box::from_raw(content));
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

unsafe extern "C" fn call(
    context: *mut JSContext,
    function: JSValueConst,
    this: JSValueConst,
    count: qjs::c_int,
    arguments: *mut JSValue,
    _: qjs::c_int,
) -> JSValue {
    // SAFETY: an object of this class has such a content, and QuickJS keeps all that it gives for the time
    // of the call.
    let (native, call) = unsafe {
        let native = &*opaque::<Native<'_>>(function);
        let runtime = NonNull::new_unchecked(qjs::JS_GetRuntime(context));
        let borrowed = |raw| Bare::owned(runtime, raw);
        let len = usize::try_from(count).unwrap_or(0).min(3);
        let argument = |at| {
            // On some platforms they are not where Rust would have them.
            borrowed(if at < len { arguments.add(at).read_unaligned() } else { qjs::JS_UNDEFINED })
        };
        let arguments = ManuallyDrop::new([argument(0), argument(1), argument(2)]);
        let [function, this] = [function, this].map(|raw| ManuallyDrop::new(borrowed(raw)));
        (native, Call { function, this, arguments, len })
    };
    match catch_unwind(AssertUnwindSafe(|| native.run(&call))) {
        Ok(Ok(returned)) => returned.into_raw(),
        Ok(Err(error)) => throw(native.ctx(), &error),
        Err(panic) => {
            // What it releases may wake others, who may panic as well: that would be lost.
            let _ = catch_unwind(AssertUnwindSafe(|| native.stop()));
            carry(native.ctx(), panic)
        }
    }
}

/// What a function that has failed returns.
#[cold]
fn throw(ctx: &Ctx<'_>, error: &Error) -> JSValue {
    if !matches!(error, Error::Exception) {
        // Of rquickjs's own.
        Exception::throw_type(ctx, &error.to_string());
    }
    qjs::JS_EXCEPTION
}

/// Has rquickjs carry a panic past QuickJS, which it does for its own functions.
#[cold]
fn carry(ctx: &Ctx<'_>, panic: Box<dyn Any + Send>) -> JSValue {
    let panic = Cell::new(Some(panic));
    let again = move || panic.take().map_or((), |panic| resume_unwind(panic));
    if let Ok(again) = Function::new(ctx.clone(), again) {
        // SAFETY: it has no arguments, and returns nothing that is counted.
        unsafe {
            qjs::JS_Call(context(ctx), again.as_raw(), qjs::JS_UNDEFINED, 0, ptr::null_mut());
        }
    }
    qjs::JS_EXCEPTION
}

/// # Safety
///
/// The object is of the class whose objects have this, or nothing yet.
unsafe fn opaque<C>(object: JSValueConst) -> *mut C {
    let mut class = 0;
    // SAFETY: said above.
    unsafe { qjs::JS_GetAnyOpaque(object, &raw mut class).cast() }
}
