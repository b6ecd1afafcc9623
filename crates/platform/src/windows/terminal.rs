//! The console that a stream is.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::os::windows::io::AsRawHandle;

use windows_sys::Win32::System::Console::{
    CONSOLE_SCREEN_BUFFER_INFO, ENABLE_VIRTUAL_TERMINAL_PROCESSING, GetConsoleMode,
    GetConsoleScreenBufferInfo, SetConsoleMode,
};

use crate::wait::Source;

/// The size of the console that this stream is, in columns and rows; `None` if it is no console.
pub fn size(stream: &impl Source) -> Option<(u16, u16)> {
    let handle = stream.source().as_standard()?;
    let mut found = CONSOLE_SCREEN_BUFFER_INFO::default();
    // SAFETY: The handle is open for as long as it is borrowed, and there is room for what is written.
    let told = unsafe { GetConsoleScreenBufferInfo(handle.as_raw_handle(), &raw mut found) };
    let window = found.srWindow;
    let length = |from: i16, to: i16| u16::try_from(i32::from(to) - i32::from(from) + 1).ok();
    (told != 0).then_some(())?;
    Some((length(window.Left, window.Right)?, length(window.Top, window.Bottom)?))
}

/// Whether we are in front of the console: whoever has one is.
pub fn is_in_front(stream: &impl Source) -> bool {
    size(stream).is_some()
}

/// Writes. Windows stops no program for that.
pub fn unstopped<T>(write: impl FnOnce() -> T) -> T {
    write()
}

/// Whether the console that this stream is understands colours as they are written, which it is asked to do.
pub fn understands_colours(stream: &impl Source) -> bool {
    let Some(handle) = stream.source().as_standard() else { return false };
    let mut mode = 0;
    // SAFETY: The handle is open for as long as it is borrowed, and there is room for the number.
    let told = unsafe { GetConsoleMode(handle.as_raw_handle(), &raw mut mode) };
    let mode = mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING;
    // SAFETY: As above.
    told != 0 && unsafe { SetConsoleMode(handle.as_raw_handle(), mode) } != 0
}
