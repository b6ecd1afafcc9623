//! What a process has from whoever has started it, and does not keep: what that one had from others in turn, and had
//! open so that all whom it starts have it. Limits are those of a job.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use windows_sys::Win32::{
    Foundation::{CloseHandle, GetHandleInformation, HANDLE, HANDLE_FLAG_INHERIT},
    Storage::FileSystem::{FILE_TYPE_CHAR, GetFileType},
    System::Console::{GetStdHandle, STD_ERROR_HANDLE, STD_INPUT_HANDLE, STD_OUTPUT_HANDLE},
};

use crate::{descriptor, socket::Listener};

/// Handles are multiples of this.
const STEP: usize = 4;

/// Nobody is given a handle beyond this that its starter had open.
const MOST: usize = 1 << 16;

/// Puts away what a broker has from its starter: nothing here.
pub fn leave(_: bool) {}

/// What this process makes is its user's alone by the directories that it makes it in.
pub fn keep_files_private() {}

/// There are no signals here that a starter could have ignored.
pub fn reset_signals() {}

/// Closes what is open because a starter had it open: the end of a pipe whose end somebody else waits for, and holds on
/// locks. The standard streams are left. Nobody passes a socket here.
///
/// To be called before anything is opened.
///
/// # Errors
///
/// None here.
pub fn close_inherited() -> Result<Option<Listener>, String> {
    let streams = [STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE];
    // SAFETY: Numbers are given.
    let streams = streams.map(|stream| unsafe { GetStdHandle(stream) });
    let mut left = descriptor::open_count().unwrap_or(usize::MAX);
    for number in (STEP..MOST).step_by(STEP) {
        if left == 0 {
            break;
        }
        let handle = number as HANDLE;
        let mut flags = 0;
        // SAFETY: It is asked whether there is such a handle.
        if unsafe { GetHandleInformation(handle, &raw mut flags) } == 0 {
            continue;
        }
        left -= 1;
        // SAFETY: There is such a handle.
        let is_console = unsafe { GetFileType(handle) == FILE_TYPE_CHAR };
        // The console has some of its own in this process, which it goes on to use.
        if flags & HANDLE_FLAG_INHERIT != 0 && !is_console && !streams.contains(&handle) {
            // SAFETY: What this program opens itself is not inherited. So it is the starter's, and nothing here knows of it.
            unsafe { CloseHandle(handle) };
        }
    }
    Ok(None)
}
