//! Pipes of a name: one more instance to listen at, and an end that connects.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::{
    io,
    os::windows::io::{AsHandle, OwnedHandle},
    ptr,
    sync::Arc,
};

use windows_sys::Win32::{
    Foundation::{GENERIC_READ, GENERIC_WRITE},
    Storage::FileSystem::{
        CreateFileW, FILE_FLAG_FIRST_PIPE_INSTANCE, FILE_FLAG_OVERLAPPED, OPEN_EXISTING,
        PIPE_ACCESS_DUPLEX, SECURITY_IDENTIFICATION, SECURITY_SQOS_PRESENT,
    },
    System::Pipes::{
        CreateNamedPipeW, PIPE_READMODE_BYTE, PIPE_REJECT_REMOTE_CLIENTS, PIPE_TYPE_BYTE,
        PIPE_UNLIMITED_INSTANCES, PIPE_WAIT,
    },
};

use crate::windows::{
    operation::associate,
    security::Descriptor,
    system::{owned, wide},
};

/// How many bytes the system buffers that were written and not read, either way.
const BUFFERED: u32 = 64 << 10;

/// One more instance of a pipe, for one more connection.
pub(super) fn instance(name: &str, is_first: bool) -> io::Result<Arc<OwnedHandle>> {
    let descriptor = Descriptor::private()?;
    let attributes = descriptor.attributes(false);
    let first = if is_first { FILE_FLAG_FIRST_PIPE_INSTANCE } else { 0 };
    // SAFETY: The name ends with a zero, and it and the attributes outlive the call. The handle is new.
    let made = unsafe {
        owned(CreateNamedPipeW(
            wide(name).as_ptr(),
            PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | first,
            PIPE_TYPE_BYTE | PIPE_READMODE_BYTE | PIPE_WAIT | PIPE_REJECT_REMOTE_CLIENTS,
            PIPE_UNLIMITED_INSTANCES,
            BUFFERED,
            BUFFERED,
            0,
            &raw const attributes,
        ))
    }?;
    associate(made.as_handle())?;
    Ok(Arc::new(made))
}

/// Connects to the pipe of this name, for overlapped calls.
pub(super) fn connected(name: &str) -> io::Result<Arc<OwnedHandle>> {
    let made = open(name, FILE_FLAG_OVERLAPPED)?;
    associate(made.as_handle())?;
    Ok(Arc::new(made))
}

/// Connects to the pipe of this name. Whoever listens can see who we are, and cannot act in our name.
pub(super) fn open(name: &str, flags: u32) -> io::Result<OwnedHandle> {
    let flags = flags | SECURITY_SQOS_PRESENT | SECURITY_IDENTIFICATION;
    // SAFETY: As of `instance`.
    unsafe {
        owned(CreateFileW(
            wide(name).as_ptr(),
            GENERIC_READ | GENERIC_WRITE,
            0,
            ptr::null(),
            OPEN_EXISTING,
            flags,
            ptr::null_mut(),
        ))
    }
}
