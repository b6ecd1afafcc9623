//! Priorities of threads.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use windows_sys::Win32::System::Threading::{
    GetCurrentThread, SetThreadPriority, THREAD_PRIORITY_BELOW_NORMAL,
};

/// Lowers the priority of this thread: for threads that look, for which nobody who locks should have
/// to wait.
///
/// ```
/// use std::thread;
///
/// # use navlock_platform::thread::lower_thread_priority;
/// # let show_what_happens = || {};
/// let looker = thread::spawn(move || {
///     lower_thread_priority();
///     show_what_happens();
/// });
/// # looker.join().unwrap();
/// ```
pub fn lower_thread_priority() {
    // SAFETY: The handle of this thread is one that is not closed. If the call is refused, the
    // priority is as before.
    unsafe { SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_BELOW_NORMAL) };
}
