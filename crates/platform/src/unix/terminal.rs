//! The terminal that a stream is.

use rustix::{
    process::getpgrp,
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
    tcgetpgrp(stream.source()).is_ok_and(|group| group == getpgrp())
}

/// Whether the terminal that this stream is understands colours as they are written.
pub fn understands_colours(_: &impl Source) -> bool {
    true
}
