//! The functions of Node-API that are needed, as safe as they can be, and counted.

mod counts;

use std::{
    ffi::{CStr, c_void},
    fmt,
    mem::MaybeUninit,
    ptr,
};

use napi_sys::{
    PropertyAttributes, Status, napi_callback, napi_callback_info, napi_deferred, napi_env,
    napi_property_descriptor, napi_ref, napi_status, napi_threadsafe_function,
    napi_threadsafe_function_call_js, napi_value,
};

pub(crate) use self::counts::Counts;

/// Why a call of Node-API, or of ours, came to nothing.
pub(crate) enum Failure {
    /// A script has thrown this. It is not pending any more.
    Thrown(Local),
    /// Node-API refused, in this call.
    Refused(&'static str, napi_status),
    /// We cannot.
    Own(String),
}

impl Failure {
    /// Throws it as the last thing of a call.
    pub(crate) fn throw(self, env: napi_env) {
        let message = match self {
            Self::Thrown(Local(value)) => {
                // SAFETY: `env` is that of the call that is about to return, in which it was thrown.
                unsafe { napi_sys::napi_throw(env, value) };
                return;
            }
            Self::Refused(call, status) => format!("{call} failed with status {status}"),
            Self::Own(why) => why,
        };
        let message = message.replace('\0', "\u{fffd}") + "\0";
        // SAFETY: as above; the message ends with its only NUL.
        unsafe { napi_sys::napi_throw_error(env, ptr::null(), message.as_ptr().cast()) };
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thrown(_) => f.write_str("Thrown"),
            Self::Refused(call, status) => write!(f, "Refused({call}, {status})"),
            Self::Own(why) => write!(f, "Own({why})"),
        }
    }
}

/// A handle, of the call into us that goes on.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Local(pub(crate) napi_value);

/// The environment, to be used on its thread while it lives.
#[derive(Clone, Copy)]
pub(crate) struct Env {
    raw: napi_env,
    counts: &'static Counts,
}

/// Calls this function of Node-API with the environment and the arguments.
macro_rules! invoke {
    ($env:expr, $function:ident($($argument:expr),*)) => {{
        $env.counts.add(stringify!($function));
        // SAFETY: `Env::new` was promised a live environment and its thread, and handles of this
        // call; the arguments are of the types that the function takes.
        let status = unsafe { napi_sys::$function($env.raw, $($argument),*) };
        $env.check(stringify!($function), status)
    }};
}

/// The same, with a place for its result.
macro_rules! call {
    ($env:expr, $function:ident($($argument:expr),*)) => {{
        let mut result = MaybeUninit::uninit();
        invoke!($env, $function($($argument,)* result.as_mut_ptr()))
            // SAFETY: it is written to where the function succeeds.
            .map(|()| unsafe { result.assume_init() })
    }};
}

// Below the macros, which it uses.
mod values;

impl Env {
    /// # Safety
    ///
    /// The environment lives, this is its thread, and no handle of a call that has ended is used with
    /// the result.
    pub(crate) unsafe fn new(raw: napi_env, counts: &'static Counts) -> Self {
        Self { raw, counts }
    }

    /// The environment of a call, the data of its function, and its arguments: as many as there were, if
    /// those are not more than there is room for.
    ///
    /// # Safety
    ///
    /// As of [`new`](Self::new), for this call; and its function was made with a `T` for its data.
    pub(crate) unsafe fn enter<const N: usize, T>(
        raw: napi_env,
        info: napi_callback_info,
        counts: impl FnOnce(&'static T) -> &'static Counts,
    ) -> Result<(Self, &'static T, [Local; N], usize), Failure> {
        const FUNCTION: &str = "napi_get_cb_info";
        let mut length = N;
        let mut arguments = [Local(ptr::null_mut()); N];
        let mut data = ptr::null_mut();
        // A `Local` is nothing but its handle.
        let room = (&raw mut arguments).cast::<napi_value>();
        let this = ptr::null_mut();
        // SAFETY: promised by the caller; there is room for as many arguments as is said.
        let status = unsafe {
            napi_sys::napi_get_cb_info(raw, info, &raw mut length, room, this, &raw mut data)
        };
        if status != Status::napi_ok {
            return Err(Failure::Refused(FUNCTION, status));
        }
        // SAFETY: promised by the caller.
        let data: &'static T = unsafe { &*data.cast::<T>() };
        let env = Self { raw, counts: counts(data) };
        env.counts.add(FUNCTION);
        Ok((env, data, arguments, length))
    }

    fn check(self, function: &'static str, status: napi_status) -> Result<(), Failure> {
        if status == Status::napi_ok { Ok(()) } else { Err(self.failed(function, status)) }
    }

    /// Why it has failed: where a script has thrown, not every function says so by its status.
    #[cold]
    fn failed(self, function: &'static str, status: napi_status) -> Failure {
        let mut is_pending = false;
        let mut thrown = ptr::null_mut();
        // SAFETY: as in `invoke`. These two may be called whatever is pending.
        let got = unsafe {
            napi_sys::napi_is_exception_pending(self.raw, &raw mut is_pending);
            is_pending
                && napi_sys::napi_get_and_clear_last_exception(self.raw, &raw mut thrown)
                    == Status::napi_ok
        };
        // If there is none to be had, the script was stopped by what no script can catch.
        if got { Failure::Thrown(Local(thrown)) } else { Failure::Refused(function, status) }
    }

    /// Asks for the arguments of this call, to see what that costs.
    pub(crate) fn look_at_arguments(self, info: napi_callback_info) -> Result<(), Failure> {
        let mut length = 4;
        let mut room = [ptr::null_mut(); 4];
        let (this, data) = (ptr::null_mut(), ptr::null_mut());
        invoke!(self, napi_get_cb_info(info, &raw mut length, room.as_mut_ptr(), this, data))
    }

    pub(crate) fn type_error(self, Local(message): Local) -> Result<Local, Failure> {
        call!(self, napi_create_type_error(ptr::null_mut(), message)).map(Local)
    }

    pub(crate) fn object(self) -> Result<Local, Failure> {
        call!(self, napi_create_object()).map(Local)
    }

    pub(crate) fn get(self, Local(object): Local, key: &CStr) -> Result<Local, Failure> {
        call!(self, napi_get_named_property(object, key.as_ptr())).map(Local)
    }

    /// By assignment.
    pub(crate) fn set(
        self,
        Local(object): Local,
        key: &CStr,
        Local(value): Local,
    ) -> Result<(), Failure> {
        invoke!(self, napi_set_named_property(object, key.as_ptr(), value))
    }

    /// As `CreateDataProperty` does.
    pub(crate) fn define_data(
        self,
        Local(object): Local,
        key: &CStr,
        Local(value): Local,
    ) -> Result<(), Failure> {
        let property = napi_property_descriptor {
            utf8name: key.as_ptr(),
            name: ptr::null_mut(),
            method: None,
            getter: None,
            setter: None,
            value,
            attributes: PropertyAttributes::writable
                | PropertyAttributes::enumerable
                | PropertyAttributes::configurable,
            data: ptr::null_mut(),
        };
        invoke!(self, napi_define_properties(object, 1, &raw const property))
    }

    /// By assignment.
    pub(crate) fn set_element(
        self,
        Local(array): Local,
        index: u32,
        Local(value): Local,
    ) -> Result<(), Failure> {
        invoke!(self, napi_set_element(array, index, value))
    }

    /// Calls a function of ours, which does not look at its `this`.
    pub(crate) fn call<const N: usize>(
        self,
        function: Local,
        arguments: [Local; N],
    ) -> Result<Local, Failure> {
        // FAST: `undefined` would have to be asked for.
        self.call_with(function, function, arguments)
    }

    /// Calls a function with this for its `this`.
    pub(crate) fn call_with<const N: usize>(
        self,
        Local(this): Local,
        Local(function): Local,
        arguments: [Local; N],
    ) -> Result<Local, Failure> {
        // A `Local` is nothing but its handle.
        let arguments = (&raw const arguments).cast::<napi_value>();
        call!(self, napi_call_function(this, function, N, arguments)).map(Local)
    }

    pub(crate) fn promise(self) -> Result<(Local, napi_deferred), Failure> {
        let mut deferred = ptr::null_mut();
        let promise = call!(self, napi_create_promise(&raw mut deferred))?;
        Ok((Local(promise), deferred))
    }

    /// To be called once, or not at all.
    pub(crate) fn resolve(
        self,
        deferred: napi_deferred,
        Local(value): Local,
    ) -> Result<(), Failure> {
        invoke!(self, napi_resolve_deferred(deferred, value))
    }

    /// To be called once, or not at all.
    pub(crate) fn reject(
        self,
        deferred: napi_deferred,
        Local(value): Local,
    ) -> Result<(), Failure> {
        invoke!(self, napi_reject_deferred(deferred, value))
    }

    /// A reference that keeps an object or a function.
    pub(crate) fn reference(self, Local(value): Local) -> Result<napi_ref, Failure> {
        call!(self, napi_create_reference(value, 1))
    }

    pub(crate) fn referenced(self, reference: napi_ref) -> Result<Local, Failure> {
        call!(self, napi_get_reference_value(reference)).map(Local)
    }

    pub(crate) fn forget(self, reference: napi_ref) -> Result<(), Failure> {
        invoke!(self, napi_delete_reference(reference))
    }

    /// A number that both halves see: a `Uint32Array` of one element, and where that is in memory for as
    /// long as its buffer is kept.
    pub(crate) fn shared_number(self) -> Result<(Local, *mut u32), Failure> {
        let mut place = ptr::null_mut();
        let buffer = call!(self, napi_create_arraybuffer(size_of::<u32>(), &raw mut place))?;
        let kind = napi_sys::TypedarrayType::uint32_array;
        let array = call!(self, napi_create_typedarray(kind, 1, buffer, 0))?;
        Ok((Local(array), place.cast()))
    }

    /// A function that may be called from any thread, and has `on_call` called on this one, with this for
    /// its context.
    pub(crate) fn threadsafe_function(
        self,
        context: *mut c_void,
        on_call: napi_threadsafe_function_call_js,
    ) -> Result<napi_threadsafe_function, Failure> {
        let Local(name) = self.string("navlock")?;
        let none = ptr::null_mut();
        call!(
            self,
            napi_create_threadsafe_function(
                none,
                none,
                name,
                0,
                1,
                none.cast(),
                None,
                context,
                on_call
            )
        )
    }

    /// Whether the event loop goes on because of this function.
    pub(crate) fn keep_alive(
        self,
        function: napi_threadsafe_function,
        on: bool,
    ) -> Result<(), Failure> {
        if on {
            invoke!(self, napi_ref_threadsafe_function(function))
        } else {
            invoke!(self, napi_unref_threadsafe_function(function))
        }
    }

    /// Has this called on this thread when the environment ends.
    pub(crate) fn on_cleanup(
        self,
        hook: Option<unsafe extern "C" fn(*mut c_void)>,
        argument: *mut c_void,
    ) -> Result<(), Failure> {
        invoke!(self, napi_add_env_cleanup_hook(hook, argument))
    }

    /// Adds a function with this data to an object.
    pub(crate) fn define<T>(
        self,
        object: Local,
        name: &CStr,
        function: napi_callback,
        data: *mut T,
    ) -> Result<(), Failure> {
        let length = signed(name.count_bytes());
        let function =
            call!(self, napi_create_function(name.as_ptr(), length, function, data.cast()))?;
        self.set(object, name, Local(function))
    }
}

/// A length as Node-API takes it.
fn signed(length: usize) -> isize {
    isize::try_from(length).expect("nothing in memory is longer")
}
