//! A handler that writes a byte for each signal.
//!
//! FAST: some fifty signals are caught for each command. A registry of handlers, which grows with each of them, takes
//! longer for that than the command takes to start.

use std::{
    mem::MaybeUninit,
    os::fd::AsRawFd,
    ptr,
    sync::atomic::{AtomicI32, Ordering::SeqCst},
};

use nix::{
    errno::Errno,
    libc::{self, c_int, c_void, siginfo_t},
};

use crate::socket::Stream;

/// Where the handler writes; negative for nowhere.
static INTO: AtomicI32 = AtomicI32::new(-1);

/// This bit of a byte says that the kernel has sent the signal of itself, and the others are the signal's number.
const BY_KERNEL: u8 = 0x80;

/// From now on, the handler writes into this stream, which must not block. It must be told before the stream is dropped.
pub(super) fn write_into(stream: Option<&Stream>) {
    INTO.store(stream.map_or(-1, AsRawFd::as_raw_fd), SeqCst);
}

/// The signal of which this byte tells, and whether the kernel has sent it. `None` for a zero.
pub(super) fn noted(byte: u8) -> Option<(c_int, bool)> {
    (byte != 0).then_some((c_int::from(byte & !BY_KERNEL), byte & BY_KERNEL != 0))
}

/// Has the handler write of this signal from now on.
#[allow(
    unsafe_code,
    reason = "no library sets one handler for many signals, real-time signals among them, in one step each"
)]
pub(super) fn catch(signal: c_int) {
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = note;
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: Zeros are a sound action, and with them no signal is blocked. The handler takes what the flag says that
    // it is given, and does only what a handler may. A signal that cannot be caught is an error, and changes nothing.
    unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(signal, action, ptr::null_mut());
    }
}

#[allow(unsafe_code, reason = "a handler is given a pointer")]
extern "C" fn note(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: The kernel gives each handler with `SA_SIGINFO` what it knows of the signal.
    let by_kernel = is_by_kernel(unsafe { &*info });
    let byte = u8::try_from(signal)
        .map_or(0, |signal| if by_kernel { signal | BY_KERNEL } else { signal });
    let before = Errno::last_raw();
    // SAFETY: write(2) may be called by a handler, and there is a byte. If the stream is full, some hundred signals are
    // in it already.
    unsafe { libc::write(INTO.load(SeqCst), (&raw const byte).cast(), 1) };
    Errno::set_raw(before);
}

#[cfg(target_os = "linux")]
fn is_by_kernel(info: &siginfo_t) -> bool {
    info.si_code == libc::SI_KERNEL
}

/// Apple's systems do not tell.
#[cfg(not(target_os = "linux"))]
fn is_by_kernel(_: &siginfo_t) -> bool {
    false
}
