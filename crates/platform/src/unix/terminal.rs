//! The terminal that a stream is.

use nix::{
    sys::signal::{SigSet, SigmaskHow, Signal},
    unistd::getpgrp,
};
use rustix::{
    io::Errno,
    termios::{tcgetpgrp, tcgetwinsize},
};

use crate::wait::Source;

/// The size of the terminal that this stream is, in columns and rows, each 0 if the terminal does
/// not know; `None` if it is no terminal.
pub fn size(stream: &impl Source) -> Option<(u16, u16)> {
    let size = tcgetwinsize(stream.source()).ok()?;
    Some((size.ws_col, size.ws_row))
}

/// Whether we are in front of the terminal that this stream is.
pub fn is_in_front(stream: &impl Source) -> bool {
    let group = match tcgetpgrp(stream.source()) {
        Ok(group) => group.as_raw_nonzero().get(),
        // The terminal's group, like our own, is 0 where it is one of another namespace of processes.
        Err(Errno::OPNOTSUPP) => 0,
        Err(_) => return false,
    };
    group == getpgrp().as_raw()
}

/// Writes, without being stopped by a terminal that stops programs which write in the background.
pub fn unstopped<T>(write: impl FnOnce() -> T) -> T {
    let stops = SigSet::from(Signal::SIGTTOU);
    let before = stops.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let written = write();
    if let Ok(before) = before {
        let _ = before.thread_set_mask();
    }
    written
}

/// Whether the terminal that this stream is understands colours as they are written.
pub fn understands_colours(_: &impl Source) -> bool {
    true
}
