//! Primitive values: what they are in Rust, and back.

use std::{mem::MaybeUninit, ptr};

use napi_sys::Status;

use super::{Env, Failure, Local, signed};

impl Env {
    pub(crate) fn kind(self, Local(value): Local) -> Result<i32, Failure> {
        call!(self, napi_typeof(value))
    }

    pub(crate) fn to_u32(self, Local(value): Local) -> Result<u32, Failure> {
        call!(self, napi_get_value_uint32(value))
    }

    pub(crate) fn to_bool(self, Local(value): Local) -> Result<bool, Failure> {
        call!(self, napi_get_value_bool(value))
    }

    pub(crate) fn coerced_to_bool(self, Local(value): Local) -> Result<Local, Failure> {
        call!(self, napi_coerce_to_bool(value)).map(Local)
    }

    pub(crate) fn coerced_to_string(self, Local(value): Local) -> Result<Local, Failure> {
        call!(self, napi_coerce_to_string(value)).map(Local)
    }

    /// The code units of a string; `None` if it is none.
    pub(crate) fn units(self, Local(value): Local) -> Result<Option<Vec<u16>>, Failure> {
        // FAST: as in the package's addon.
        let mut short = [0_u16; 64];
        let length =
            call!(self, napi_get_value_string_utf16(value, short.as_mut_ptr(), short.len()));
        let length: usize = match length {
            Err(Failure::Refused(_, Status::napi_string_expected)) => return Ok(None),
            length => length?,
        };
        if length + 1 < short.len() {
            return Ok(Some(short[..length].to_vec()));
        }
        let length: usize = call!(self, napi_get_value_string_utf16(value, ptr::null_mut(), 0))?;
        let mut units = vec![0_u16; length + 1];
        let length: usize =
            call!(self, napi_get_value_string_utf16(value, units.as_mut_ptr(), units.len()))?;
        units.truncate(length);
        Ok(Some(units))
    }

    pub(crate) fn undefined(self) -> Result<Local, Failure> {
        call!(self, napi_get_undefined()).map(Local)
    }

    pub(crate) fn null(self) -> Result<Local, Failure> {
        call!(self, napi_get_null()).map(Local)
    }

    pub(crate) fn bool(self, value: bool) -> Result<Local, Failure> {
        call!(self, napi_get_boolean(value)).map(Local)
    }

    pub(crate) fn u32(self, number: u32) -> Result<Local, Failure> {
        call!(self, napi_create_uint32(number)).map(Local)
    }

    pub(crate) fn double(self, number: f64) -> Result<Local, Failure> {
        call!(self, napi_create_double(number)).map(Local)
    }

    pub(crate) fn string(self, text: &str) -> Result<Local, Failure> {
        let (bytes, length) = (text.as_ptr().cast(), signed(text.len()));
        call!(self, napi_create_string_utf8(bytes, length)).map(Local)
    }

    pub(crate) fn string_of_units(self, units: &[u16]) -> Result<Local, Failure> {
        let length = signed(units.len());
        call!(self, napi_create_string_utf16(units.as_ptr(), length)).map(Local)
    }
}
