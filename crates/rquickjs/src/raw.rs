//! Values of QuickJS without rquickjs's types, for direct calls of QuickJS's functions.
//!
//! FAST: a `rquickjs::Value` changes its context's reference count whenever it is made, cloned or
//! dropped, and the garbage collector sees each change. A call through rquickjs does this for each
//! argument, and several times for a function with a class of its own. This took a quarter of the
//! time of a request. So the steps of every request use this module and [`class`](crate::class),
//! and rare steps use rquickjs.

#![expect(unsafe_code, reason = "what QuickJS asks of C")]

use std::{mem::ManuallyDrop, ptr::NonNull, slice};

use rquickjs::{
    Ctx, Error, Result, Value,
    atom::PredefinedAtom,
    markers::Invariant,
    qjs::{self, JSContext, JSRuntime, JSValue},
};

/// A value that counts one reference to itself, and none to its context.
///
/// # Invariant
///
/// The value is used and dropped while its runtime lives. Either a running call keeps the value, or
/// an object keeps it and shows it to QuickJS's garbage collector.
pub(crate) struct Bare<'js> {
    pub(crate) raw: JSValue,
    runtime: NonNull<JSRuntime>,
    _lifetime: Invariant<'js>,
}

impl<'js> Bare<'js> {
    /// # Safety
    ///
    /// The value belongs to this runtime, and the caller gives away one counted reference to the
    /// value.
    pub(crate) unsafe fn owned(runtime: NonNull<JSRuntime>, raw: JSValue) -> Self {
        Self { raw, runtime, _lifetime: Invariant::new() }
    }

    pub(crate) fn undefined(ctx: &Ctx<'js>) -> Self {
        // SAFETY: `undefined` is not reference-counted.
        unsafe { Self::owned(runtime(ctx), qjs::JS_UNDEFINED) }
    }

    pub(crate) fn null(ctx: &Ctx<'js>) -> Self {
        // SAFETY: `null` is not reference-counted.
        unsafe { Self::owned(runtime(ctx), qjs::JS_NULL) }
    }

    /// The same value.
    pub(crate) fn of(value: &Value<'js>) -> Self {
        // SAFETY: the value lives, and `JS_DupValue` counts the new reference.
        unsafe {
            let raw = qjs::JS_DupValue(context(value.ctx()), value.as_raw());
            Self::owned(runtime(value.ctx()), raw)
        }
    }

    /// The same value, in this context.
    pub(crate) fn value(&self, ctx: &Ctx<'js>) -> Value<'js> {
        // SAFETY: as `of`.
        unsafe { Value::from_raw(ctx.clone(), qjs::JS_DupValue(context(ctx), self.raw)) }
    }

    pub(crate) fn into_raw(self) -> JSValue {
        ManuallyDrop::new(self).raw
    }

    /// Whether the value is reference-counted.
    fn is_counted(&self) -> bool {
        // SAFETY: this only reads the tag.
        unsafe { qjs::JS_VALUE_HAS_REF_COUNT(self.raw) }
    }

    pub(crate) fn is_undefined(&self) -> bool {
        // SAFETY: this only reads the tag.
        unsafe { qjs::JS_IsUndefined(self.raw) }
    }

    pub(crate) fn is_null(&self) -> bool {
        // SAFETY: this only reads the tag.
        unsafe { qjs::JS_IsNull(self.raw) }
    }

    pub(crate) fn is_object(&self) -> bool {
        // SAFETY: this only reads the tag.
        unsafe { qjs::JS_IsObject(self.raw) }
    }

    pub(crate) fn is_function(&self, ctx: &Ctx<'js>) -> bool {
        // SAFETY: the value lives.
        unsafe { qjs::JS_IsFunction(context(ctx), self.raw) }
    }

    /// The state of the promise, or `None` if the value is not one of the language's own promises.
    pub(crate) fn promise_state(&self, ctx: &Ctx<'js>) -> Option<qjs::JSPromiseStateEnum> {
        // SAFETY: the value lives, and only a promise is asked for its state.
        unsafe { qjs::JS_IsPromise(self.raw).then(|| qjs::JS_PromiseState(context(ctx), self.raw)) }
    }

    /// Whether both are the same object.
    pub(crate) fn is_same_object(&self, other: &Self) -> bool {
        // SAFETY: every object has such a pointer, and the pointers are only compared.
        self.is_object()
            && other.is_object()
            && unsafe { qjs::JS_VALUE_GET_PTR(self.raw) == qjs::JS_VALUE_GET_PTR(other.raw) }
    }

    /// Spec: <https://tc39.es/ecma262/#sec-toboolean>
    pub(crate) fn to_boolean(&self, ctx: &Ctx<'js>) -> bool {
        // SAFETY: the value lives. The conversion fails only for the mark of an exception, which is
        // no value.
        unsafe { qjs::JS_ToBool(context(ctx), self.raw) == 1 }
    }

    pub(crate) fn is_string(&self) -> bool {
        // SAFETY: this only reads the tag.
        unsafe { qjs::JS_IsString(self.raw) }
    }

    /// Whether both are the same string, and not only two equal ones.
    pub(crate) fn is_same_string(&self, other: &Self) -> bool {
        // SAFETY: every string has such a pointer, and the pointers are only compared.
        self.is_string()
            && other.is_string()
            && unsafe { qjs::JS_VALUE_GET_PTR(self.raw) == qjs::JS_VALUE_GET_PTR(other.raw) }
    }

    /// Converts the value to a string, and calls a function with the string's code units.
    pub(crate) fn with_utf16<T>(&self, ctx: &Ctx<'js>, run: impl FnOnce(&[u16]) -> T) -> Result<T> {
        let converted;
        let string = if self.is_object() {
            // An object is converted first. Otherwise, `JS_ToCStringLenUTF16` would use the message
            // of an `Error` that cannot be converted.
            // SAFETY: the value lives.
            let raw = unsafe { qjs::JS_ToString(context(ctx), self.raw) };
            // SAFETY: `raw` is a counted reference, which the `Bare` takes over.
            converted = unsafe { given(ctx, self.runtime, raw) }?;
            &converted
        } else {
            self
        };
        let mut length = 0;
        // SAFETY: the value lives. QuickJS gives `length` code units, which live until they are
        // freed below.
        unsafe {
            let units = qjs::JS_ToCStringLenUTF16(context(ctx), &raw mut length, string.raw);
            if units.is_null() {
                return Err(exception(ctx));
            }
            let done = run(slice::from_raw_parts(units, usize::try_from(length).unwrap_or(0)));
            qjs::JS_FreeCStringUTF16(context(ctx), units);
            Ok(done)
        }
    }

    /// The property of an object.
    pub(crate) fn get(&self, ctx: &Ctx<'js>, key: PredefinedAtom) -> Result<Self> {
        // SAFETY: the value lives, and a predefined atom lives as long as its runtime.
        unsafe {
            given(
                ctx,
                self.runtime,
                qjs::JS_GetProperty(context(ctx), self.raw, key as qjs::JSAtom),
            )
        }
    }

    /// Calls the value. This fails if the value is not a function.
    pub(crate) fn call<const N: usize>(
        &self,
        ctx: &Ctx<'js>,
        this: &Self,
        arguments: [&Self; N],
    ) -> Result<Self> {
        let mut arguments = arguments.map(|argument| argument.raw);
        // SAFETY: all values live during the call, and QuickJS does not write to the arguments.
        unsafe {
            let arguments = (count(N), arguments.as_mut_ptr());
            let returned = qjs::JS_Call(context(ctx), self.raw, this.raw, arguments.0, arguments.1);
            given(ctx, self.runtime, returned)
        }
    }

    /// Queues a job that calls the value, with `undefined` for `this`.
    pub(crate) fn defer<const N: usize>(
        &self,
        ctx: &Ctx<'js>,
        arguments: [&Self; N],
    ) -> Result<()> {
        let mut given = [qjs::JS_UNDEFINED; 4];
        given[0] = self.raw;
        for (at, argument) in given[1..].iter_mut().zip(arguments) {
            *at = argument.raw;
        }
        // SAFETY: all values live, and QuickJS counts a reference to each value that it keeps.
        let status = unsafe {
            qjs::JS_EnqueueJob(context(ctx), Some(call_first), count(1 + N), given.as_mut_ptr())
        };
        if status < 0 { Err(exception(ctx)) } else { Ok(()) }
    }
}

/// A string of these code units.
pub(crate) fn string<'js>(ctx: &Ctx<'js>, units: &[u16]) -> Result<Bare<'js>> {
    // SAFETY: QuickJS copies the `length` code units, which are all there.
    unsafe {
        let length = units.len().try_into().map_err(|_| Error::Unknown)?;
        given(ctx, runtime(ctx), qjs::JS_NewStringUTF16(context(ctx), units.as_ptr(), length))
    }
}

/// A promise, and the functions that resolve and reject it.
pub(crate) fn promise<'js>(ctx: &Ctx<'js>) -> Result<[Bare<'js>; 3]> {
    let mut functions = [qjs::JS_UNDEFINED; 2];
    // SAFETY: there is room for both functions. If the call succeeds, its caller owns a reference
    // to each of them.
    unsafe {
        let promise = qjs::JS_NewPromiseCapability(context(ctx), functions.as_mut_ptr());
        let promise = given(ctx, runtime(ctx), promise)?;
        let [resolve, reject] = functions.map(|function| Bare::owned(promise.runtime, function));
        Ok([promise, resolve, reject])
    }
}

impl Clone for Bare<'_> {
    fn clone(&self) -> Self {
        // SAFETY: the value lives, and `JS_DupValueRT` counts the new reference.
        unsafe {
            if self.is_counted() {
                qjs::JS_DupValueRT(self.runtime.as_ptr(), self.raw);
            }
            Self::owned(self.runtime, self.raw)
        }
    }
}

impl Drop for Bare<'_> {
    fn drop(&mut self) {
        if self.is_counted() {
            // SAFETY: this reference was counted when the `Bare` was made, and the runtime lives.
            unsafe { qjs::JS_FreeValueRT(self.runtime.as_ptr(), self.raw) };
        }
    }
}

impl<'js> From<Value<'js>> for Bare<'js> {
    fn from(value: Value<'js>) -> Self {
        Self::of(&value)
    }
}

/// A job that calls its first argument with the other arguments.
unsafe extern "C" fn call_first(
    context: *mut JSContext,
    count: qjs::c_int,
    arguments: *mut JSValue,
) -> JSValue {
    // SAFETY: there is at least one argument, and QuickJS keeps all arguments during the call.
    unsafe {
        let function = arguments.read_unaligned();
        qjs::JS_Call(context, function, qjs::JS_UNDEFINED, count - 1, arguments.add(1))
    }
}

/// The error that says that an exception was thrown.
#[cold]
pub(crate) fn exception(ctx: &Ctx<'_>) -> Error {
    let thrown = ctx.catch();
    // SAFETY: this only reads the tag.
    if unsafe { qjs::JS_IsException(thrown.as_raw()) } {
        // The exception is not a value but a panic that rquickjs carries. The panic goes on when a
        // call by rquickjs itself fails.
        let _ = ctx.eval::<(), _>("throw undefined");
    }
    ctx.throw(thrown)
}

/// The value that QuickJS has returned, or an error if QuickJS has thrown an exception.
///
/// # Safety
///
/// The value belongs to this runtime, which is the runtime of the context. The value's counted
/// reference is the caller's.
pub(crate) unsafe fn given<'js>(
    ctx: &Ctx<'js>,
    runtime: NonNull<JSRuntime>,
    raw: JSValue,
) -> Result<Bare<'js>> {
    // SAFETY: as `# Safety` demands.
    unsafe {
        if qjs::JS_IsException(raw) {
            return Err(exception(ctx));
        }
        Ok(Bare::owned(runtime, raw))
    }
}

pub(crate) fn context(ctx: &Ctx<'_>) -> *mut JSContext {
    ctx.as_raw().as_ptr()
}

pub(crate) fn runtime(ctx: &Ctx<'_>) -> NonNull<JSRuntime> {
    // SAFETY: a context lives no longer than its runtime.
    unsafe { NonNull::new_unchecked(qjs::JS_GetRuntime(context(ctx))) }
}

fn count(count: usize) -> qjs::c_int {
    qjs::c_int::try_from(count).unwrap_or(0)
}
