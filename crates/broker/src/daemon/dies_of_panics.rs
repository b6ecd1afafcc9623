//! That a panic of a thread ends the broker.

use std::{process, thread};

/// A panic while this is there kills the process, after the panic was logged. To unwind would end the clients'
/// agents one by one, as if the clients had gone. If the process dies, its clients claim their locks from the
/// next daemon.
pub(super) struct DiesOfPanics;

impl Drop for DiesOfPanics {
    fn drop(&mut self) {
        if thread::panicking() {
            process::abort();
        }
    }
}
