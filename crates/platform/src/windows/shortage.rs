//! Which resource has run out.

use std::io;

use windows_sys::Win32::Foundation::{
    ERROR_DISK_FULL, ERROR_DISK_QUOTA_EXCEEDED, ERROR_HANDLE_DISK_FULL, ERROR_TOO_MANY_OPEN_FILES,
};

/// Which resource has run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Open files of this process.
    OpenFiles,
    /// Open files of the whole system.
    OpenFilesOfAll,
    /// Room on the disk, or what this user may have of it.
    Room,
}

/// Which resource has run out, if that is why the system has refused something.
pub fn of(error: &io::Error) -> Option<Shortage> {
    match error.raw_os_error()?.cast_unsigned() {
        ERROR_TOO_MANY_OPEN_FILES => Some(Shortage::OpenFiles),
        ERROR_DISK_FULL | ERROR_HANDLE_DISK_FULL | ERROR_DISK_QUOTA_EXCEEDED => {
            Some(Shortage::Room)
        }
        _ => None,
    }
}
