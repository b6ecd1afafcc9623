//! Whether a process was started with a standard output.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::{
    fs::{OFlags, fcntl_getfl},
    stdio::stdout,
};

static IS_MISSING: AtomicBool = AtomicBool::new(false);

/// Rust's runtime puts the null device in the place of a stream that is closed, and takes no notice if a
/// stream cannot be written. So the stream is looked at before the runtime begins.
#[cfg(target_os = "linux")]
#[used]
#[allow(unsafe_code, reason = "only so does anything run before Rust's runtime")]
// SAFETY: A function in this section is called once, with arguments that it need not take. This one asks the
// kernel, cannot unwind, and needs nothing of Rust's runtime.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look;

extern "C" fn look() {
    let is_there = fcntl_getfl(stdout()).is_ok_and(|flags| {
        let access = flags & OFlags::RWMODE;
        access == OFlags::WRONLY || access == OFlags::RDWR
    });
    IS_MISSING.store(!is_there, Ordering::Relaxed);
}

/// Whether this process was started with a standard output that can be written.
pub fn has_output() -> bool {
    if cfg!(not(target_os = "linux")) {
        look();
    }
    !IS_MISSING.load(Ordering::Relaxed)
}
