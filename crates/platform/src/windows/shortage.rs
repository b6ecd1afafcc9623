//! Of what there is no more.

use std::io;

use windows_sys::Win32::Foundation::{
    ERROR_DISK_FULL, ERROR_DISK_QUOTA_EXCEEDED, ERROR_HANDLE_DISK_FULL, ERROR_TOO_MANY_OPEN_FILES,
};

/// Of what there is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Open files of this process.
    OpenFiles,
    /// Open files of the whole system.
    OpenFilesOfAll,
    /// Room on the disk, or what this user may have of it.
    Room,
}

/// Of what there is no more, if that is what the system has refused something for.
pub fn of(error: &io::Error) -> Option<Shortage> {
    match error.raw_os_error()?.cast_unsigned() {
        ERROR_TOO_MANY_OPEN_FILES => Some(Shortage::OpenFiles),
        ERROR_DISK_FULL | ERROR_HANDLE_DISK_FULL | ERROR_DISK_QUOTA_EXCEEDED => {
            Some(Shortage::Room)
        }
        _ => None,
    }
}
