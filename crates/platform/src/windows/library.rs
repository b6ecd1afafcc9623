//! Libraries that a process has loaded.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::{io, ptr};

use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW,
};

/// Keeps the library that contains this code loaded until the process ends, whoever unloads it.
///
/// # Errors
///
/// Those of the system, which give no reason to expect any.
pub fn keep_loaded() -> io::Result<()> {
    let flags = GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS;
    let inside: *const u16 = (keep_loaded as fn() -> io::Result<()>) as *const u16;
    let mut module = ptr::null_mut();
    // SAFETY: By these flags the second argument is an address in the library, and the handle that
    // is written need not be given back.
    let is_kept = unsafe { GetModuleHandleExW(flags, inside, &raw mut module) } != 0;
    if is_kept { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_itself_can_be_kept() {
        keep_loaded().unwrap();
    }
}
