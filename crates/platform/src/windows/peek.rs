//! What can be asked of one end of a pipe, whoever has opened it, and without taking anything out of it.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::{
    io,
    os::windows::io::{AsRawHandle, BorrowedHandle},
};

use windows_sys::{
    Wdk::Storage::FileSystem::{
        FILE_PIPE_LOCAL_INFORMATION, FilePipeLocalInformation, NtQueryInformationFile,
    },
    Win32::{
        Storage::FileSystem::{FILE_TYPE_PIPE, GetFileType},
        System::{IO::IO_STATUS_BLOCK, Pipes::PeekNamedPipe},
    },
};

use super::system::checked;

/// Whether it is one end of a pipe.
pub(crate) fn is_pipe(handle: BorrowedHandle<'_>) -> bool {
    // SAFETY: The handle is open for as long as it is borrowed.
    unsafe { GetFileType(handle.as_raw_handle()) == FILE_TYPE_PIPE }
}

/// Whether there is something in a pipe, and whether its other end has gone.
pub(crate) fn peek(pipe: BorrowedHandle<'_>) -> (bool, bool) {
    let mut available = 0;
    let null = std::ptr::null_mut;
    // SAFETY: The handle is open for as long as it is borrowed; nothing but this number is written.
    let peeked = unsafe {
        PeekNamedPipe(
            pipe.as_raw_handle(),
            null(),
            0,
            null().cast(),
            &raw mut available,
            null().cast(),
        )
    };
    match checked(peeked) {
        Ok(()) => (available > 0, is_closing(pipe)),
        // It cannot be asked whether an end that is written to has one that reads.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => (false, is_closing(pipe)),
        Err(_) => (false, true),
    }
}

/// Whether the other end of a pipe has gone while there is something in it: then what is in it is
/// read as before, and only this says so.
pub(crate) fn is_closing(pipe: BorrowedHandle<'_>) -> bool {
    /// `FILE_PIPE_CONNECTED_STATE`.
    const CONNECTED: u32 = 3;
    let mut status = IO_STATUS_BLOCK::default();
    let mut found = FILE_PIPE_LOCAL_INFORMATION::default();
    let size = u32::try_from(size_of::<FILE_PIPE_LOCAL_INFORMATION>()).unwrap_or_default();
    // SAFETY: The handle is open, and there is as much room as is said.
    let failed = unsafe {
        NtQueryInformationFile(
            pipe.as_raw_handle(),
            &raw mut status,
            (&raw mut found).cast(),
            size,
            FilePipeLocalInformation,
        )
    };
    failed >= 0 && found.NamedPipeState != CONNECTED
}
