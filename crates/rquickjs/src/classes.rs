//! The classes of this crate, and how QuickJS calls the objects that are functions.

#![expect(unsafe_code, reason = "what QuickJS asks of C")]

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr::{self, NonNull},
};

use rquickjs::{
    Ctx, Error, Exception, Function, Result,
    markers::Invariant,
    qjs::{self, JSContext, JSValue, JSValueConst},
};

use crate::{
    call::Call,
    class::{Classes, define, opaque},
    function::Native,
    home::Content,
    raw::context,
    refusal::{REFUSING, Refusal},
};

impl Classes {
    pub(crate) fn of(ctx: &Ctx<'_>) -> Result<Self> {
        if let Some(known) = ctx.userdata::<Self>() {
            return Ok(*known);
        }
        let classes = Self {
            object: define::<Content<'static>>(ctx, c"Navlock", None, None)?,
            function: define::<Native<'static>>(ctx, c"NavlockFunction", Some(call), None)?,
            refusal: define::<Refusal<'static>>(ctx, c"NavlockRefusal", None, Some(&REFUSING))?,
        };
        ctx.store_userdata(classes)?;
        Ok(classes)
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
    // SAFETY: the content of an object of this class is a `Native`. QuickJS keeps all values that
    // it passes for the time of the call. A context has a runtime.
    let (native, runtime) = unsafe {
        let native = &*opaque::<Native<'_>>(function);
        (native, NonNull::new_unchecked(qjs::JS_GetRuntime(context)))
    };
    let count = usize::try_from(count).unwrap_or(0);
    let call = Call { runtime, function, this, count, arguments, _lifetime: Invariant::new() };
    match catch_unwind(AssertUnwindSafe(|| native.run(&call))) {
        Ok(Ok(returned)) => returned.into_raw(),
        Ok(Err(error)) => throw(native.ctx(), &error),
        Err(panic) => {
            // The stop may wake others, and these may panic as well. Such a panic is dropped.
            let _ = catch_unwind(AssertUnwindSafe(|| native.stop()));
            carry(native.ctx(), panic)
        }
    }
}

/// Throws the error of a function that has failed. Returns the mark of an exception.
#[cold]
fn throw(ctx: &Ctx<'_>, error: &Error) -> JSValue {
    if !matches!(error, Error::Exception) {
        // This is an error of rquickjs's own.
        Exception::throw_type(ctx, &error.to_string());
    }
    qjs::JS_EXCEPTION
}

/// Makes rquickjs carry a panic past QuickJS, as rquickjs does for its own functions.
#[cold]
fn carry(ctx: &Ctx<'_>, panic: Box<dyn Any + Send>) -> JSValue {
    let panic = Cell::new(Some(panic));
    let again = move || panic.take().map_or((), |panic| resume_unwind(panic));
    if let Ok(again) = Function::new(ctx.clone(), again) {
        // SAFETY: the function has no arguments, and its result is not reference-counted.
        unsafe {
            qjs::JS_Call(context(ctx), again.as_raw(), qjs::JS_UNDEFINED, 0, ptr::null_mut());
        }
    }
    qjs::JS_EXCEPTION
}
