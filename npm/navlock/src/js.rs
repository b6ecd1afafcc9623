//! The few things of Node-API that are needed, with Rust's errors.

use std::{ffi::CStr, fmt, mem::MaybeUninit, ptr};

use napi_sys::{
    Status, napi_callback, napi_callback_info, napi_env, napi_ref, napi_status, napi_value,
};

/// Why a function of the addon has failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The call of this name was refused by Node-API, with this status.
    Refused(&'static str, napi_status),
    /// The addon itself cannot do what it was asked for, for this reason.
    Own(String),
}

impl Failure {
    /// Throws this failure as an error of JavaScript, unless something was thrown already.
    pub(crate) fn throw(&self, env: napi_env) {
        let mut is_pending = false;
        // SAFETY: `env` is that of the call that is about to return.
        unsafe { napi_sys::napi_is_exception_pending(env, &raw mut is_pending) };
        if is_pending {
            return;
        }
        let message = self.to_string().replace('\0', "\u{fffd}") + "\0";
        // SAFETY: as above; the message ends with its only NUL.
        unsafe { napi_sys::napi_throw_error(env, ptr::null(), message.as_ptr().cast()) };
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(call, status) => {
                write!(f, "navlock: {call} failed with status {status} of Node-API")
            }
            Self::Own(why) => write!(f, "navlock: {why}"),
        }
    }
}

/// The environment of a realm, for the time of one call into it.
#[derive(Clone, Copy)]
pub(crate) struct Env(napi_env);

/// A weak reference of Node-API: it does not keep its value from being collected.
#[derive(Clone, Copy)]
pub(crate) struct Weak(napi_ref);

/// Calls this function of Node-API with the environment, the arguments, and a place for its result.
macro_rules! call {
    ($env:expr, $function:ident($($argument:expr),*)) => {{
        let mut result = MaybeUninit::uninit();
        // SAFETY: `Env::new` was promised a live environment and its thread; the arguments are of
        // the types that the function takes, and `result` is written to if it succeeds.
        match unsafe { napi_sys::$function($env.0, $($argument,)* result.as_mut_ptr()) } {
            // SAFETY: it has succeeded.
            Status::napi_ok => Ok(unsafe { result.assume_init() }),
            status => Err(Failure::Refused(stringify!($function), status)),
        }
    }};
}

impl Env {
    /// # Safety
    ///
    /// The environment lives and this is its thread, as long as the result is used.
    pub(crate) unsafe fn new(env: napi_env) -> Self {
        Self(env)
    }

    pub(crate) fn raw(self) -> napi_env {
        self.0
    }

    /// The arguments of this call (`undefined` for those that were not given), and the data of the
    /// function.
    pub(crate) fn arguments<const N: usize, T>(
        self,
        info: napi_callback_info,
    ) -> Result<([napi_value; N], *mut T), Failure> {
        let mut length = N;
        let mut arguments = [ptr::null_mut(); N];
        let mut data = ptr::null_mut();
        // SAFETY: there is room for as many arguments as is said; `this` is not asked for.
        let status = unsafe {
            napi_sys::napi_get_cb_info(
                self.0,
                info,
                &raw mut length,
                arguments.as_mut_ptr(),
                ptr::null_mut(),
                &raw mut data,
            )
        };
        ok("napi_get_cb_info", status)?;
        Ok((arguments, data.cast()))
    }

    /// # Errors
    ///
    /// If the value is no number.
    pub(crate) fn to_u32(self, value: napi_value) -> Result<u32, Failure> {
        call!(self, napi_get_value_uint32(value))
    }

    /// # Errors
    ///
    /// If the value is no boolean.
    pub(crate) fn to_bool(self, value: napi_value) -> Result<bool, Failure> {
        call!(self, napi_get_value_bool(value))
    }

    pub(crate) fn is_null(self, value: napi_value) -> Result<bool, Failure> {
        Ok(call!(self, napi_typeof(value))? == napi_sys::ValueType::napi_null)
    }

    /// # Errors
    ///
    /// If the value is neither a string nor null.
    pub(crate) fn to_string(self, value: napi_value) -> Result<Option<String>, Failure> {
        if self.is_null(value)? {
            return Ok(None);
        }
        let length: usize = call!(self, napi_get_value_string_utf8(value, ptr::null_mut(), 0))?;
        let mut bytes = vec![0_u8; length + 1];
        let written: usize =
            call!(self, napi_get_value_string_utf8(value, bytes.as_mut_ptr().cast(), bytes.len()))?;
        bytes.truncate(written);
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Calls `then` with the code units of a string, and returns its result.
    ///
    /// # Errors
    ///
    /// If the value is no string.
    pub(crate) fn with_units<T>(
        self,
        value: napi_value,
        then: impl FnOnce(&[u16]) -> T,
    ) -> Result<T, Failure> {
        // FAST: nearly all names are short, and asking for the length costs as much again.
        let mut short = [0_u16; 64];
        let length: usize =
            call!(self, napi_get_value_string_utf16(value, short.as_mut_ptr(), short.len()))?;
        // One unit of the room is for the NUL at the end. Since another one is free, this is the
        // whole string.
        if length + 1 < short.len() {
            return Ok(then(&short[..length]));
        }
        let length: usize = call!(self, napi_get_value_string_utf16(value, ptr::null_mut(), 0))?;
        let mut units = vec![0_u16; length + 1];
        let length: usize =
            call!(self, napi_get_value_string_utf16(value, units.as_mut_ptr(), units.len()))?;
        Ok(then(&units[..length]))
    }

    /// A reference that does not keep a function from being collected.
    pub(crate) fn weak(self, function: napi_value) -> Result<Weak, Failure> {
        Ok(Weak(call!(self, napi_create_reference(function, 0))?))
    }

    /// The value of a weak reference, unless the value was collected.
    pub(crate) fn get(self, Weak(reference): Weak) -> Result<Option<napi_value>, Failure> {
        let value: napi_value = call!(self, napi_get_reference_value(reference))?;
        Ok((!value.is_null()).then_some(value))
    }

    pub(crate) fn forget(self, Weak(reference): Weak) -> Result<(), Failure> {
        // SAFETY: as in `call`; this one has no result.
        let status = unsafe { napi_sys::napi_delete_reference(self.0, reference) };
        ok("napi_delete_reference", status)
    }

    /// Calls a function without arguments.
    pub(crate) fn call(self, function: napi_value) -> Result<(), Failure> {
        let this = self.undefined()?;
        // SAFETY: as in `call`; there are no arguments, and the result is not wanted.
        let status = unsafe {
            napi_sys::napi_call_function(self.0, this, function, 0, ptr::null(), ptr::null_mut())
        };
        ok("napi_call_function", status)
    }

    pub(crate) fn undefined(self) -> Result<napi_value, Failure> {
        call!(self, napi_get_undefined())
    }

    pub(crate) fn u32(self, number: u32) -> Result<napi_value, Failure> {
        call!(self, napi_create_uint32(number))
    }

    pub(crate) fn bigint(self, number: u64) -> Result<napi_value, Failure> {
        call!(self, napi_create_bigint_uint64(number))
    }

    pub(crate) fn string(self, text: &str) -> Result<napi_value, Failure> {
        let (bytes, length) = (text.as_ptr().cast(), signed(text.len()));
        call!(self, napi_create_string_utf8(bytes, length))
    }

    pub(crate) fn null(self) -> Result<napi_value, Failure> {
        call!(self, napi_get_null())
    }

    pub(crate) fn string_or_null(self, text: Option<&str>) -> Result<napi_value, Failure> {
        text.map_or_else(|| self.null(), |text| self.string(text))
    }

    pub(crate) fn string_of_units(self, units: &[u16]) -> Result<napi_value, Failure> {
        let length = signed(units.len());
        call!(self, napi_create_string_utf16(units.as_ptr(), length))
    }

    /// Assigns these to the elements of an array. The array has no prototype, so that no setter of a
    /// program is called.
    pub(crate) fn fill(
        self,
        array: napi_value,
        elements: impl Iterator<Item = Result<napi_value, Failure>>,
    ) -> Result<(), Failure> {
        for (index, element) in (0..).zip(elements) {
            // SAFETY: as in `call`; this one has no result.
            let status = unsafe { napi_sys::napi_set_element(self.0, array, index, element?) };
            ok("napi_set_element", status)?;
        }
        Ok(())
    }

    /// A `Uint32Array` with these numbers.
    pub(crate) fn u32_array(self, numbers: &[u32]) -> Result<napi_value, Failure> {
        let mut place = ptr::null_mut();
        let bytes = size_of_val(numbers);
        let buffer = call!(self, napi_create_arraybuffer(bytes, &raw mut place))?;
        if bytes > 0 {
            // SAFETY: the buffer is new and has as many bytes, and any bytes are valid in it.
            unsafe { ptr::copy_nonoverlapping(numbers.as_ptr().cast(), place.cast::<u8>(), bytes) };
        }
        let kind = napi_sys::TypedarrayType::uint32_array;
        call!(self, napi_create_typedarray(kind, numbers.len(), buffer, 0))
    }

    /// Adds a function with this data to an object.
    pub(crate) fn define<T>(
        self,
        object: napi_value,
        name: &CStr,
        function: napi_callback,
        data: *mut T,
    ) -> Result<(), Failure> {
        let length = signed(name.count_bytes());
        let function =
            call!(self, napi_create_function(name.as_ptr(), length, function, data.cast()))?;
        self.set(object, name, function)
    }

    /// Adds a number to an object.
    pub(crate) fn define_number(
        self,
        object: napi_value,
        name: &CStr,
        number: u32,
    ) -> Result<(), Failure> {
        self.set(object, name, self.u32(number)?)
    }

    fn set(self, object: napi_value, name: &CStr, value: napi_value) -> Result<(), Failure> {
        // SAFETY: as in `call`; this one has no result.
        let status =
            unsafe { napi_sys::napi_set_named_property(self.0, object, name.as_ptr(), value) };
        ok("napi_set_named_property", status)
    }
}

/// A length as Node-API takes it.
fn signed(length: usize) -> isize {
    isize::try_from(length).expect("nothing in memory is longer")
}

/// Checks the status that the function of this name has returned.
///
/// # Errors
///
/// If the function has failed.
pub(crate) fn ok(call: &'static str, status: napi_status) -> Result<(), Failure> {
    if status == Status::napi_ok { Ok(()) } else { Err(Failure::Refused(call, status)) }
}
