//! One end of a named pipe, read and written as a socket is: one can wait until there is something
//! in it or room for more, and does not have to wait.
//!
//! Windows has no such readiness: it takes a buffer and says when it has filled the buffer or taken
//! what is in it. So each end has a buffer of its own for either direction. There is something to
//! be read when the read that is under way has come to its end; there is room when no write is
//! under way. What was written is sent also when the end is dropped before the other has taken it,
//! as with a socket.
#![allow(unsafe_code, reason = "windows-sys has the calls as they are in C")]

use std::{
    io,
    os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, OwnedHandle},
    ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use windows_sys::Win32::{
    Foundation::{
        ERROR_BROKEN_PIPE, ERROR_NO_DATA, ERROR_OPERATION_ABORTED, ERROR_PIPE_NOT_CONNECTED, HANDLE,
    },
    Storage::FileSystem::{ReadFile, WriteFile},
};

use super::{
    operation::Operation,
    peek::{is_closing, peek},
    system::{Event, wait_for},
};

/// How much is read, or written, at once.
const ROOM: usize = 64 << 10;

/// About how much of what the other end has written is still read once this one is shut down: more
/// than the system keeps, so that only an end that goes on writing is cut short.
const LAST: usize = 4 * ROOM;

/// Which end of a pipe it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The end that has listened.
    Server,
    /// The end that has connected.
    Client,
}

/// One end of a pipe. All that share it have the same end.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) side: Side,
    /// Set while a read would not wait.
    readable: Arc<Event>,
    /// Set while a write would not wait.
    writable: Arc<Event>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` once it is shut down.
    handle: Option<Arc<OwnedHandle>>,
    reading: Box<Operation>,
    writing: Box<Operation>,
    /// What was read and not taken yet, in the buffer of the read.
    from: usize,
    to: usize,
    /// There is nothing more to be read.
    ended: bool,
}

fn is(error: &io::Error, code: u32) -> bool {
    error.raw_os_error() == Some(code.cast_signed())
}

/// Whether the other end has gone.
fn has_gone(error: &io::Error) -> bool {
    [ERROR_BROKEN_PIPE, ERROR_NO_DATA, ERROR_PIPE_NOT_CONNECTED, ERROR_OPERATION_ABORTED]
        .iter()
        .any(|code| is(error, *code))
}

impl Pipe {
    /// The end that this handle is of, which is [associated](super::operation::associate).
    pub(crate) fn new(handle: Arc<OwnedHandle>, side: Side) -> io::Result<Self> {
        let (readable, writable) = (Arc::new(Event::new(false)?), Arc::new(Event::new(true)?));
        let state = State {
            handle: Some(handle),
            reading: Operation::new(&readable),
            writing: Operation::new(&writable),
            from: 0,
            to: 0,
            ended: false,
        };
        Ok(Self { side, readable, writable, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A poisoned mutex is no error: the state is whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does this with the handle.
    pub(crate) fn with_handle<T>(&self, act: impl FnOnce(HANDLE) -> T) -> io::Result<T> {
        let handle = self.state().handle.clone().ok_or(io::ErrorKind::NotConnected)?;
        Ok(act(handle.as_raw_handle()))
    }

    /// What is signalled while a read would not wait.
    pub(crate) fn readable(&self) -> BorrowedHandle<'_> {
        self.is_readable();
        self.readable.as_handle()
    }

    /// What is signalled while a write would not wait.
    pub(crate) fn writable(&self) -> BorrowedHandle<'_> {
        self.is_writable();
        self.writable.as_handle()
    }

    /// Whether a read would not wait: there is something, or nothing will ever be.
    pub(crate) fn is_readable(&self) -> bool {
        let mut state = self.state();
        self.advance(&mut state);
        state.ended || state.from < state.to
    }

    /// Whether a write would not wait.
    pub(crate) fn is_writable(&self) -> bool {
        let state = self.state();
        let is_writable = state.handle.is_none() || state.writing.has_ended();
        if is_writable {
            self.writable.set();
        }
        is_writable
    }

    /// Whether the other end has gone, or this one is shut down: also while there is something to be read.
    pub(crate) fn has_ended(&self) -> bool {
        let mut state = self.state();
        self.advance(&mut state);
        if state.ended {
            return true;
        }
        let Some(handle) = &state.handle else { return true };
        is_closing(handle.as_handle())
    }

    /// Takes in the result of the read that is under way, or begins a read if none is.
    fn advance(&self, state: &mut State) {
        while !state.ended && state.from == state.to {
            let Some(handle) = state.handle.clone() else {
                state.ended = true;
                break;
            };
            let came = if state.reading.is_under_way() {
                state.reading.result()
            } else {
                begin_read(state, &handle)
            };
            match came {
                None => return,
                // A message without anything in it is none.
                Some(Ok(length)) => (state.from, state.to) = (0, length),
                Some(Err(_)) => state.ended = true,
            }
        }
        // Set here too, since there may have been no call whose end would set it.
        self.readable.set();
    }

    /// Reads what there is, and waits for it if `wait` says so, and how long; 0 at the end.
    pub(crate) fn read(&self, into: &mut [u8], wait: Wait) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let deadline = wait.deadline();
        loop {
            {
                let mut state = self.state();
                self.advance(&mut state);
                if state.from < state.to {
                    let State { reading, from, to, .. } = &mut *state;
                    let length = into.len().min(*to - *from);
                    into[..length].copy_from_slice(&reading.buffer[*from..*from + length]);
                    *from += length;
                    // Begins the next read, so that what comes next is waited for from now on.
                    self.advance(&mut state);
                    return Ok(length);
                }
                if state.ended {
                    return Ok(0);
                }
            }
            self.wait(self.readable.as_handle(), wait, deadline)?;
        }
    }

    /// Writes as much as there is room for, and waits for room if `wait` says so.
    pub(crate) fn write(&self, bytes: &[u8], wait: Wait) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let deadline = wait.deadline();
        loop {
            {
                let mut state = self.state();
                let Some(handle) = state.handle.clone() else {
                    return Err(io::ErrorKind::BrokenPipe.into());
                };
                let came =
                    if state.writing.is_under_way() { state.writing.result() } else { Some(Ok(0)) };
                match came {
                    Some(Ok(_)) => return begin_write(&mut state, &handle, bytes),
                    Some(Err(error)) => return Err(broken(error)),
                    None => {}
                }
            }
            self.wait(self.writable.as_handle(), wait, deadline)?;
        }
    }

    fn wait(
        &self,
        event: BorrowedHandle<'_>,
        wait: Wait,
        deadline: Option<Instant>,
    ) -> io::Result<()> {
        if wait == Wait::Never {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        match wait_for(&[event], left)? {
            Some(_) => Ok(()),
            None => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Ends the connection at both ends. What was written before is still read: at the other end,
    /// and at this one.
    pub(crate) fn shut_down(&self) {
        let mut state = self.state();
        if let Some(handle) = state.handle.take() {
            let last = last(&mut state, &handle);
            drop(handle);
            self.close(&mut state);
            (state.from, state.to) = (0, last.len());
            state.reading.buffer = last;
        }
    }

    /// Gives up this share in the handle, which is closed with the last one.
    fn close(&self, state: &mut State) {
        state.handle = None;
        state.reading = Operation::new(&self.readable);
        finish(std::mem::replace(&mut state.writing, Operation::new(&self.writable)));
        (state.from, state.to, state.ended) = (0, 0, true);
        self.readable.set();
        self.writable.set();
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // Nobody reads what was not read by now.
        self.close(&mut self.state());
    }
}

/// What the other end has written and nobody has read. Nothing is under way after that.
fn last(state: &mut State, handle: &Arc<OwnedHandle>) -> Vec<u8> {
    let mut found = state.reading.buffer.get(state.from..state.to).unwrap_or_default().to_vec();
    let mut came = state.reading.cancel();
    loop {
        if let Some(Ok(length)) = came {
            found.extend_from_slice(&state.reading.buffer[..length]);
        }
        let (is_something, _) = peek(handle.as_handle());
        if !is_something || found.len() >= LAST {
            return found;
        }
        came = begin_read(state, handle).or_else(|| state.reading.cancel());
        if !matches!(came, Some(Ok(_))) {
            return found;
        }
    }
}

fn begin_read(state: &mut State, handle: &Arc<OwnedHandle>) -> Option<io::Result<usize>> {
    let room = u32::try_from(ROOM).unwrap_or(u32::MAX);
    // SAFETY: What is read is put into the buffer, of which it is said how long it is, and nobody
    // touches it meanwhile: what was in it was taken.
    unsafe {
        state.reading.begin(handle, |buffer, overlapped| {
            buffer.resize(ROOM, 0);
            let into = buffer.as_mut_ptr();
            ReadFile(handle.as_raw_handle(), into, room, ptr::null_mut(), overlapped)
        })
    }
}

fn begin_write(state: &mut State, handle: &Arc<OwnedHandle>, bytes: &[u8]) -> io::Result<usize> {
    let taken = &bytes[..bytes.len().min(ROOM)];
    let length = u32::try_from(taken.len()).unwrap_or(u32::MAX);
    // SAFETY: What is written is taken from the buffer, which nobody touches before it is.
    let came = unsafe {
        state.writing.begin(handle, |buffer, overlapped| {
            buffer.clear();
            buffer.extend_from_slice(taken);
            let from = buffer.as_ptr();
            WriteFile(handle.as_raw_handle(), from, length, ptr::null_mut(), overlapped)
        })
    };
    match came {
        Some(Err(error)) => Err(broken(error)),
        Some(Ok(_)) | None => Ok(taken.len()),
    }
}

/// Lets a write that is under way come to its end, without waiting for it.
fn finish(mut writing: Box<Operation>) {
    if !writing.is_under_way() || writing.result().is_some() {
        return;
    }
    let unfinished = Unfinished(writing);
    // Where there is no thread to be had, the write is dropped, and so waited for, here.
    let _ = thread::Builder::new().name("navlock-pipe".to_owned()).spawn(|| drop(unfinished));
}

/// A write that is under way. Dropping it waits until the other end has taken it, or has gone.
struct Unfinished(Box<Operation>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = self.0.wait();
    }
}

fn broken(error: io::Error) -> io::Error {
    if has_gone(&error) { io::ErrorKind::BrokenPipe.into() } else { error }
}

/// Whether a call waits, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Never,
    Forever,
    For(Duration),
}

impl Wait {
    fn deadline(self) -> Option<Instant> {
        match self {
            Self::For(time) => Instant::now().checked_add(time),
            _ => None,
        }
    }
}
