//! Handles, events, and waiting for them: what the other modules share.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::{
    ffi::{OsStr, OsString},
    io,
    os::windows::{
        ffi::{OsStrExt, OsStringExt},
        io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle},
    },
    path::{Component, Path, Prefix, absolute},
    ptr,
    sync::{Arc, Mutex, PoisonError},
    task::Waker,
    time::Duration,
};

use windows_sys::{
    Win32::{
        Foundation::{
            HANDLE, HANDLE_FLAG_INHERIT, INVALID_HANDLE_VALUE, SetHandleInformation, WAIT_FAILED,
            WAIT_OBJECT_0, WAIT_TIMEOUT,
        },
        System::Threading::{
            CloseThreadpoolWait, CreateEventW, CreateThreadpoolWait, INFINITE,
            PTP_CALLBACK_INSTANCE, PTP_WAIT, ResetEvent, SetEvent, SetThreadpoolWait,
            WaitForMultipleObjects, WaitForThreadpoolWaitCallbacks,
        },
    },
    core::BOOL,
};

/// How many objects can be waited for at once, at most.
pub(crate) const MOST: usize = 64;

/// The error of the last call if it did not return true.
pub(crate) fn checked(done: BOOL) -> io::Result<()> {
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A new handle, or the error of the call that should have made it.
///
/// # Safety
///
/// If it is a handle, nobody else closes it.
pub(crate) unsafe fn owned(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_null() || handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: The caller says that it is ours.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// A text as the system has it, with a zero at its end.
pub(crate) fn wide(text: impl AsRef<OsStr>) -> Vec<u16> {
    text.as_ref().encode_wide().chain([0]).collect()
}

/// A path as the system has it. It takes a plain path of some 250 characters at most, and a longer
/// path only in the form in which it writes such paths itself.
pub(crate) fn wide_path(path: &Path) -> io::Result<Vec<u16>> {
    let path = absolute(path)?;
    Ok(if path.as_os_str().len() < LONG { wide(path) } else { wide(of_any_length(&path)) })
}

/// From here on a path is written so that it may have any length. A directory's must leave room for
/// a name in it.
const LONG: usize = 240;

/// An absolute path, as one that may have any length.
fn of_any_length(path: &Path) -> OsString {
    let Some(Component::Prefix(prefix)) = path.components().next() else { return path.into() };
    let (begins, leave_out) = match prefix.kind() {
        Prefix::Disk(_) => (r"\\?\", 0),
        Prefix::UNC(..) => (r"\\?\UNC\", 2),
        _ => return path.into(),
    };
    let rest: Vec<u16> = path.as_os_str().encode_wide().skip(leave_out).collect();
    let mut whole = OsString::from(begins);
    whole.push(OsString::from_wide(&rest));
    whole
}

/// Whether programs that are started inherit this handle.
pub(crate) fn set_inherited(handle: BorrowedHandle<'_>, is_inherited: bool) -> io::Result<()> {
    let flag = if is_inherited { HANDLE_FLAG_INHERIT } else { 0 };
    // SAFETY: The handle is open for as long as it is borrowed.
    checked(unsafe { SetHandleInformation(handle.as_raw_handle(), HANDLE_FLAG_INHERIT, flag) })
}

/// An event, which stays as it is until somebody changes it.
#[derive(Debug)]
pub(crate) struct Event(OwnedHandle);

impl Event {
    pub(crate) fn new(is_set: bool) -> io::Result<Self> {
        // SAFETY: It has no name and no attributes; the handle is new.
        unsafe { owned(CreateEventW(ptr::null(), 1, i32::from(is_set), ptr::null())) }.map(Self)
    }

    pub(crate) fn set(&self) {
        // SAFETY: The handle is open. It cannot fail for an event of our own.
        unsafe { SetEvent(self.raw()) };
    }

    pub(crate) fn reset(&self) {
        // SAFETY: As in `set`.
        unsafe { ResetEvent(self.raw()) };
    }

    pub(crate) fn raw(&self) -> HANDLE {
        self.0.as_raw_handle()
    }
}

impl AsHandle for Event {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.0.as_handle()
    }
}

/// Waits until one of these is signalled, but no longer than this. Returns its place; `None` if
/// none was in time.
///
/// There may be [`MOST`] of them.
pub(crate) fn wait_for(
    objects: &[BorrowedHandle<'_>],
    timeout: Option<Duration>,
) -> io::Result<Option<usize>> {
    let handles: Vec<HANDLE> = objects.iter().map(AsRawHandle::as_raw_handle).collect();
    let count = u32::try_from(handles.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: The handles are open for as long as they are borrowed.
    let came = unsafe { WaitForMultipleObjects(count, handles.as_ptr(), 0, milliseconds(timeout)) };
    match came {
        WAIT_TIMEOUT => Ok(None),
        WAIT_FAILED => Err(io::Error::last_os_error()),
        // An abandoned mutex, which is none of ours, would be further on.
        signalled => Ok(Some((signalled - WAIT_OBJECT_0) as usize)),
    }
}

/// Whether an object is signalled.
pub(crate) fn is_signalled(object: BorrowedHandle<'_>) -> bool {
    matches!(wait_for(&[object], Some(Duration::ZERO)), Ok(Some(_)))
}

/// At least as long as this; a time that is too long for the system becomes the longest that it
/// takes.
fn milliseconds(time: Option<Duration>) -> u32 {
    let Some(time) = time else { return INFINITE };
    let rounded = time.as_nanos().div_ceil(1_000_000);
    u32::try_from(rounded).unwrap_or(INFINITE - 1).min(INFINITE - 1)
}

/// Tasks that wait for an object, which a thread of the system's pool waits for on their behalf.
#[derive(Debug)]
pub(crate) struct Awaited {
    wait: PTP_WAIT,
    /// What the thread of the pool is given. It is ours until no such thread can use it.
    wakers: Arc<Mutex<Vec<Waker>>>,
}

// SAFETY: The system's functions for a wait may be called in any thread.
unsafe impl Send for Awaited {}
// SAFETY: As above, and also in several at once.
unsafe impl Sync for Awaited {}

impl Awaited {
    pub(crate) fn new() -> io::Result<Self> {
        let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
        let context = Arc::as_ptr(&wakers).cast_mut().cast();
        // SAFETY: What is called gets a pointer that is good for as long as this value, which waits
        // at its end for all calls.
        let wait = unsafe { CreateThreadpoolWait(Some(wake), context, ptr::null()) };
        if wait == 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { wait, wakers })
    }

    /// Has the task woken once the object is signalled; also if it already is.
    pub(crate) fn wake_when(&self, object: BorrowedHandle<'_>, waker: &Waker) {
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        drop(wakers);
        // SAFETY: The wait is there until this value is dropped. Whoever has this value has the
        // object as well, and both are dropped in this order.
        unsafe { SetThreadpoolWait(self.wait, object.as_raw_handle(), ptr::null()) };
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        // SAFETY: Nothing is waited for from here on, and no thread is in `wake` when the second
        // call returns; only then is the wait closed.
        unsafe {
            SetThreadpoolWait(self.wait, ptr::null_mut(), ptr::null());
            WaitForThreadpoolWaitCallbacks(self.wait, 1);
            CloseThreadpoolWait(self.wait);
        }
    }
}

unsafe extern "system" fn wake(
    _: PTP_CALLBACK_INSTANCE,
    context: *mut std::ffi::c_void,
    _: PTP_WAIT,
    _: u32,
) {
    // SAFETY: It points to the wakers of an `Awaited` that is there for as long as this runs.
    let wakers = unsafe { &*context.cast::<Mutex<Vec<Waker>>>() };
    let woken = std::mem::take(&mut *wakers.lock().unwrap_or_else(PoisonError::into_inner));
    woken.into_iter().for_each(Waker::wake);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_any_length_is_written_as_the_system_writes_it() {
        for (path, written) in [
            (r"C:\a\b", r"\\?\C:\a\b"),
            (r"\\server\share\a", r"\\?\UNC\server\share\a"),
            (r"\\?\C:\a", r"\\?\C:\a"),
        ] {
            assert_eq!(of_any_length(Path::new(path)), written);
        }
        assert_eq!(wide_path(Path::new(r"C:\a")).unwrap(), wide(r"C:\a"));
    }
}
