//! Libraries that a process has loaded.
#![expect(
    unsafe_code,
    reason = "there is no other word for these calls than dladdr(3) and dlopen(3)"
)]

use std::{io, mem::MaybeUninit};

use nix::libc::{Dl_info, RTLD_LAZY, RTLD_NODELETE, RTLD_NOLOAD, c_void, dladdr, dlopen};

/// Keeps the library that contains this code loaded until the process ends, whoever unloads it.
///
/// # Errors
///
/// If the library is not found by the name that it was loaded by.
pub fn keep_loaded() -> io::Result<()> {
    let inside = (keep_loaded as fn() -> io::Result<()>) as *const c_void;
    let mut found = MaybeUninit::<Dl_info>::uninit();
    // SAFETY: any address may be asked for, and what is written has room for it.
    let is_found = unsafe { dladdr(inside, found.as_mut_ptr()) } != 0;
    if !is_found {
        return Err(io::Error::other("the address of this function is in no library"));
    }
    // SAFETY: it was found, so it was written, with the name of the library as a string of C.
    let library =
        unsafe { dlopen(found.assume_init().dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) };
    if library.is_null() {
        return Err(io::Error::other("the library is not found by the name that it was loaded by"));
    }
    Ok(())
}
