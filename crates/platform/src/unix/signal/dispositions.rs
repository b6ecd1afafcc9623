//! Signals that were ignored when `navlock` was started, and are not any more when it starts a command.
//!
//! A command under a lock gets its signals as they were, as with flock(1). Signals that this program leaves
//! alone are inherited. But Rust ignores PIPE, and has PIPE end every program that it starts, while services
//! of systemd are started with PIPE ignored. And CHLD, which tells of the command's end, is caught.

use std::{
    io,
    mem::MaybeUninit,
    os::unix::process::CommandExt,
    process::Command,
    ptr,
    sync::atomic::{AtomicBool, Ordering},
};

use nix::{
    libc,
    sys::signal::{SigHandler, Signal, signal},
};

/// Each such signal, and whether it was ignored. For PIPE this can only be seen before Rust's runtime begins.
static CHANGED: [(Signal, AtomicBool); 2] =
    [(Signal::SIGPIPE, AtomicBool::new(false)), (Signal::SIGCHLD, AtomicBool::new(false))];

#[cfg(target_os = "linux")]
#[used]
#[allow(unsafe_code, reason = "only so does anything run before Rust's runtime")]
// SAFETY: A function in this section is called once, with arguments that it need not take. This one asks the
// kernel, cannot unwind, and needs nothing of Rust's runtime.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look;

#[cfg(target_os = "linux")]
extern "C" fn look() {
    for (signal, was_ignored) in &CHANGED {
        was_ignored.store(is_ignored(*signal as i32), Ordering::Relaxed);
    }
}

/// Whether this signal is ignored now.
#[allow(unsafe_code, reason = "no safe library asks for a disposition without changing it")]
pub(super) fn is_ignored(signal: i32) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: No new disposition is given, and there is room for the present one. If the call fails the zeros
    // stay, which are sound too.
    let now = unsafe {
        libc::sigaction(signal, ptr::null(), now.as_mut_ptr());
        now.assume_init()
    };
    now.sa_sigaction == libc::SIG_IGN
}

/// Has the command ignore the signals that were ignored when this program was started.
#[allow(unsafe_code, reason = "only so does anything run after Rust has changed the signals")]
pub fn hand_on(command: &mut Command) {
    for (ignored, was_ignored) in &CHANGED {
        if was_ignored.load(Ordering::Relaxed) {
            let ignore = || {
                // SAFETY: This sets no handler of ours.
                let done = unsafe { signal(*ignored, SigHandler::SigIgn) };
                done.map(drop).map_err(io::Error::from)
            };
            // SAFETY: signal(2) may be called after a fork, and nothing else is done.
            unsafe { command.pre_exec(ignore) };
        }
    }
}
