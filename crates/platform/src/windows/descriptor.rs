//! What a process has open: handles, whose number is limited by memory alone.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::{
    fs::File,
    io,
    os::windows::io::{AsRawHandle, IntoRawHandle, OwnedHandle},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

use windows_sys::Win32::{
    Foundation::{CloseHandle, INVALID_HANDLE_VALUE},
    System::{
        Console::{
            GetStdHandle, STD_ERROR_HANDLE, STD_HANDLE, STD_INPUT_HANDLE, STD_OUTPUT_HANDLE,
            SetStdHandle,
        },
        Threading::{GetCurrentProcess, GetProcessHandleCount},
    },
};

use super::system::checked;
use crate::wait::{BorrowedSource, Source};

/// An open handle, which is closed when this is dropped.
pub type Descriptor = OwnedHandle;

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// How many [`Counted`] there are.
pub fn counted() -> usize {
    COUNT.load(SeqCst)
}

/// An open handle that is counted.
#[derive(Debug)]
pub struct Counted<T>(T);

impl<T> Counted<T> {
    /// Counts the handle, always: there is no limit here.
    pub fn if_few(handle: T) -> Option<Self> {
        COUNT.fetch_add(1, SeqCst);
        Some(Self(handle))
    }

    /// The handle.
    pub fn get(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, SeqCst);
    }
}

impl<T: Source> Source for Counted<T> {
    fn source(&self) -> BorrowedSource<'_> {
        self.0.source()
    }
}

/// How many handles may be open for now: there is no limit.
pub fn limit() -> Option<u64> {
    None
}

/// To how many the limit can be raised: there is no limit.
pub fn highest_limit() -> Option<u64> {
    None
}

/// How many handles are open, where the system counts them: Wine 8 says that there are none.
pub fn open_count() -> Option<usize> {
    let mut count = 0;
    // SAFETY: The handle of this process is one that is not closed, and there is room for the number.
    checked(unsafe { GetProcessHandleCount(GetCurrentProcess(), &raw mut count) }).ok()?;
    usize::try_from(count).ok().filter(|count| *count > 0)
}

/// What keeps a place for what is to be [inherited](let_inherit). A handle has no number that one
/// could choose.
///
/// # Errors
///
/// If there is no memory for it.
pub fn numbered(file: &File, _: i32) -> io::Result<Descriptor> {
    file.try_clone().map(Into::into)
}

/// Has programs that are started from now on keep this file locked, if it is locked: see
/// [`file_lock`](super::file_lock).
///
/// # Errors
///
/// If there is no memory for it.
pub fn let_inherit(file: &File, in_place_of: &mut Descriptor) -> io::Result<()> {
    *in_place_of = super::file_lock::inherited(file)?;
    Ok(())
}

/// One of the standard streams of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// What is read.
    Input,
    /// What is written.
    Output,
    /// What is written for people.
    Error,
}

impl Stream {
    fn number(self) -> STD_HANDLE {
        match self {
            Self::Input => STD_INPUT_HANDLE,
            Self::Output => STD_OUTPUT_HANDLE,
            Self::Error => STD_ERROR_HANDLE,
        }
    }
}

/// Puts the null device in the place of these standard streams.
///
/// # Errors
///
/// If the system refuses.
pub fn leave(streams: &[Stream]) -> io::Result<()> {
    for stream in streams {
        let null = File::options().read(true).write(true).open("NUL")?;
        // SAFETY: Numbers are given, and what was there is a handle or none.
        let before = unsafe { GetStdHandle(stream.number()) };
        // SAFETY: The handle is open, and from here on is that of the stream, which is not closed.
        checked(unsafe { SetStdHandle(stream.number(), null.as_raw_handle()) })?;
        let _ = null.into_raw_handle();
        let others = [Stream::Input, Stream::Output, Stream::Error];
        // SAFETY: As above.
        let is_shared =
            others.iter().any(|other| unsafe { GetStdHandle(other.number()) } == before);
        if !before.is_null() && before != INVALID_HANDLE_VALUE && !is_shared {
            // SAFETY: It was the stream's, which looks for its handle anew each time, and nobody else's.
            unsafe { CloseHandle(before) };
        }
    }
    Ok(())
}
