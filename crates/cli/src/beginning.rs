//! How the program begins, with the C library of GNU.
//!
//! FAST: Rust's own beginning asks for the bounds of the stack, to tell an overflow of it from other
//! faults, and for that the C library reads `/proc/self/maps`: with what belongs to it, that takes longer
//! than to be granted a lock. An overflow is a fault like others here. All else that Rust begins with is
//! done as it does it; the arguments it knows by themselves, with this library.

use std::{ffi::c_int, fs::File, mem, panic::catch_unwind};

use rustix::{
    io::fcntl_getfd,
    stdio::{stderr, stdin, stdout},
};

use crate::{dispositions, exit::ExitCode};

/// What a panic ends with, as with Rust's own beginning.
const PANICKED: u8 = 101;

#[allow(unsafe_code, reason = "only so is it what the C library calls")]
// SAFETY: The C library calls the one function of this name, once, when it is ready itself. It takes the
// number of arguments, the arguments and the variables, none of which has to be taken.
#[unsafe(no_mangle)]
extern "C" fn main() -> c_int {
    let code = catch_unwind(|| {
        open_streams();
        dispositions::ignore_pipe();
        crate::navlock()
    });
    code.unwrap_or_else(|_| ExitCode::from(PANICKED)).exit()
}

/// Has no file of ours take the number of a standard stream that is closed.
fn open_streams() {
    for stream in [stdin(), stdout(), stderr()] {
        if fcntl_getfd(stream).is_err() {
            // It takes the lowest number that is free, which is this one, and keeps it.
            mem::forget(File::options().read(true).write(true).open("/dev/null"));
        }
    }
}
