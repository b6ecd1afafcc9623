//! The classes of this crate: its objects and functions.
//!
//! FAST: see [`raw`](crate::raw).

#![expect(unsafe_code, reason = "what QuickJS asks of C")]

use std::{
    any::Any,
    cell::{Cell, RefCell},
    mem::ManuallyDrop,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr::{self, NonNull},
    rc::{Rc, Weak},
};

use rquickjs::{
    Ctx, Error, Exception, Function, JsLifetime, Result, Value,
    class::Tracer,
    markers::Invariant,
    qjs::{self, JSClassID, JSContext, JSRuntime, JSValue, JSValueConst},
};

use crate::{
    function::Native,
    home::Home,
    interfaces::{Content, HomeContent},
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
    refusal: JSClassID,
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
        let refusal = qjs::JSClassDef {
            class_name: c"NavlockRefusal".as_ptr(),
            finalizer: Some(finalize::<Refusal<'static>>),
            gc_mark: Some(mark::<Refusal<'static>>),
            call: None,
            exotic: (&raw const REFUSING).cast_mut(),
        };
        let define = |class| {
            let mut id = qjs::JS_INVALID_CLASS_ID;
            // SAFETY: the number is a new one. QuickJS copies the definition, and what that points to is
            // there for ever, and only read.
            let status = unsafe {
                let runtime = runtime(ctx).as_ptr();
                qjs::JS_NewClassID(runtime, &raw mut id);
                qjs::JS_NewClass(runtime, id, &raw const class)
            };
            if status < 0 { Err(exception(ctx)) } else { Ok(id) }
        };
        let (object, function) = (define(object)?, define(function)?);
        let classes = Self { object, function, refusal: define(refusal)? };
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

/// FAST: the content is where QuickJS keeps its own: for an allocator more, the code of a request would be
///       larger, and that is as much as processors keep at hand.
fn instance<'js, C: Show>(
    prototype: &Value<'js>,
    class: JSClassID,
    content: C,
) -> Result<Bare<'js>> {
    let ctx = prototype.ctx();
    // What QuickJS allocates for anybody, such as its own objects, is for pointers.
    const { assert!(align_of::<C>() <= 8) };
    // SAFETY: the prototype lives, the place is large enough, and an object of this class has a value of
    // this type in such a place from here on.
    unsafe {
        let raw = qjs::JS_NewObjectProtoClass(context(ctx), prototype.as_raw(), class);
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

/// What an object with the classes of this crate has.
pub(crate) fn content<'a, 'js>(classes: Classes, value: &'a Bare<'js>) -> Option<&'a Content<'js>> {
    // SAFETY: objects of this class have such a content, or none while they are made, until they are
    // finalized; and it is never changed.
    unsafe { qjs::JS_GetOpaque(value.raw, classes.object).cast::<Content<'js>>().as_ref() }
}

/// What the function of this object does, if it is one of this crate's.
pub(crate) fn native<'a, 'js>(classes: Classes, value: &'a Bare<'js>) -> Option<&'a Native<'js>> {
    // SAFETY: as `content`.
    unsafe { qjs::JS_GetOpaque(value.raw, classes.function).cast::<Native<'js>>().as_ref() }
}

/// What [`refuse`] rejects promises with, while it does.
struct Refusal<'js>(RefCell<Option<Bare<'js>>>);

/// Nothing can be read of a [`Refusal`].
static REFUSING: qjs::JSClassExoticMethods = qjs::JSClassExoticMethods {
    get_own_property: None,
    get_own_property_names: None,
    delete_property: None,
    define_own_property: None,
    has_property: None,
    get_property: Some(throw_reason),
    set_property: None,
};

/// The object for [`refuse`].
pub(crate) fn refusal<'js>(classes: Classes, prototype: &Value<'js>) -> Result<Bare<'js>> {
    instance(prototype, classes.refusal, Refusal(RefCell::default()))
}

/// Rejects a promise by the function that resolves it, which `resolve` calls with the object.
///
/// A promise that is resolved with an object reads its `then`, and is rejected at once with what that throws:
/// exactly as the other function would have done it.
///
/// Spec: <https://tc39.es/ecma262/#sec-promise-resolve-functions>, step 10.
pub(crate) fn refuse<'js>(
    ctx: &Ctx<'js>,
    classes: Classes,
    object: &Bare<'js>,
    reason: Bare<'js>,
    resolve: impl FnOnce() -> Result<()>,
) -> Result<()> {
    // SAFETY: an object of this class has this until it is finalized.
    let refusal =
        unsafe { qjs::JS_GetOpaque(object.raw, classes.refusal).cast::<Refusal<'js>>().as_ref() };
    let Some(Refusal(place)) = refusal else { return Err(Error::Unknown) };
    // What is thrown takes the place of what was thrown before, and may still be to be told: why a script
    // was stopped.
    let before = ctx.has_exception().then(|| ctx.catch());
    place.replace(Some(reason));
    let resolved = resolve();
    // Still there if it was not asked for: if the call was interrupted, or the promise settled before.
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
    // SAFETY: an object of this class has such a content. What is thrown is not counted here any more.
    unsafe {
        let refusal = opaque::<Refusal<'_>>(object).as_ref();
        match refusal.and_then(|Refusal(place)| place.take()) {
            Some(reason) => qjs::JS_Throw(context, reason.into_raw()),
            None => qjs::JS_UNDEFINED,
        }
    }
}

impl Show for Refusal<'_> {
    fn show(&self, collector: &Collector) {
        let Ok(reason) = self.0.try_borrow() else { return };
        reason.iter().for_each(|reason| collector.see(reason));
    }
}

/// A call of a function, for the time of it.
pub(crate) struct Call<'js> {
    runtime: NonNull<JSRuntime>,
    function: JSValueConst,
    this: JSValueConst,
    count: usize,
    arguments: *mut JSValue,
    _lifetime: Invariant<'js>,
}

/// How many arguments functions of this crate take, at most.
const MOST: usize = 3;

impl<'js> Call<'js> {
    /// Which function.
    pub(crate) fn function(&self) -> ManuallyDrop<Bare<'js>> {
        self.borrow(self.function)
    }

    pub(crate) fn this(&self) -> ManuallyDrop<Bare<'js>> {
        self.borrow(self.this)
    }

    /// `undefined` if there are not so many.
    pub(crate) fn argument(&self, at: usize) -> ManuallyDrop<Bare<'js>> {
        self.borrow(if at < self.count {
            // SAFETY: there are so many. On some platforms they are not where Rust would have them.
            unsafe { self.arguments.add(at).read_unaligned() }
        } else {
            qjs::JS_UNDEFINED
        })
    }

    /// Those that there are, and `undefined`; and how many there are of these.
    pub(crate) fn arguments(&self) -> (ManuallyDrop<[Bare<'js>; MOST]>, usize) {
        let argument = |at| ManuallyDrop::into_inner(self.argument(at));
        (ManuallyDrop::new(std::array::from_fn(argument)), self.count.min(MOST))
    }

    fn borrow(&self, raw: JSValue) -> ManuallyDrop<Bare<'js>> {
        // SAFETY: it is counted by the caller for the time of the call, and not dropped here.
        ManuallyDrop::new(unsafe { Bare::owned(self.runtime, raw) })
    }
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
            Some(Content::Home(HomeContent(home))) => Rc::downgrade(home),
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
        let object = object(classes, prototype, Content::Home(HomeContent(home)))?;
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

unsafe extern "C" fn call(
    context: *mut JSContext,
    function: JSValueConst,
    this: JSValueConst,
    count: qjs::c_int,
    arguments: *mut JSValue,
    _: qjs::c_int,
) -> JSValue {
    // SAFETY: an object of this class has such a content, and QuickJS keeps all that it gives for the time
    // of the call. A context has a runtime.
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
