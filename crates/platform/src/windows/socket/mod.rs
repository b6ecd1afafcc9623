//! Connections between the processes of one machine, found by a path: named pipes.
//!
//! A named pipe has no path but a name, and names are shared by all users. So at the path there is
//! a file that contains the name, which is new each time, so that nobody can guess it and take it
//! before us. The file is found, removed and renamed as a socket is. If no pipe has the name any
//! more, its listener was killed.

mod instance;
mod listener;
mod name;
mod runtime;
mod stream;
#[cfg(test)]
mod tests;

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read, Write},
    path::Path,
};

#[cfg(feature = "command")]
pub use self::stream::{of_output, talking};
pub use self::{
    listener::{Address, Listener},
    name::{MAX_PATH, fits, is_at},
    runtime::{AsyncListener, AsyncStream},
    stream::{Stream, connect, hearing},
};

/// Listens at `path`, where nothing but this user's processes find it. The system is told who may
/// connect when the pipe is made; the file gets its own path last.
///
/// # Errors
///
/// If it cannot be made.
pub fn listen(temporary: &Path, path: &Path) -> io::Result<Listener> {
    match fs::remove_file(temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = Listener::bind(temporary)?;
    crate::file::replace(temporary, path)?;
    Ok(listener)
}

/// Listens at a path, for this user alone.
///
/// # Errors
///
/// `AddrInUse` if there is something at the path.
#[cfg(feature = "command")]
pub fn bind_private(path: &Path) -> io::Result<Listener> {
    Listener::bind(path)
}

/// Sends as much as there is room for; where there is none, a socket that does not block returns
/// `WouldBlock`.
///
/// # Errors
///
/// `BrokenPipe` if the other end has gone.
pub fn send(mut socket: &Stream, bytes: &[u8]) -> io::Result<usize> {
    socket.write(bytes)
}

/// Reads bytes with files: here that is not possible.
///
/// # Errors
///
/// Always.
pub fn receive_with_files(_: &Stream, _: &mut [u8], _: &mut Vec<File>) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Reads what there is into memory of `into` that was not written to yet; 0 at the end.
///
/// # Errors
///
/// `WouldBlock` if nothing is there and the socket does not block.
pub fn read_into_spare(mut socket: &Stream, into: &mut Vec<u8>) -> io::Result<usize> {
    let (before, room) = (into.len(), into.capacity() - into.len());
    into.resize(before + room, 0);
    let read = socket.read(&mut into[before..]);
    into.truncate(before + read.as_ref().map_or(0, |read| *read));
    read
}

/// Does this from within a directory, and then goes to the root directory.
///
/// # Errors
///
/// If there is no way there.
#[cfg(feature = "command")]
pub fn within<T>(directory: &Path, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    std::env::set_current_dir(directory)?;
    let done = act();
    let _ = std::env::set_current_dir(r"\");
    done
}

/// Does this from within a directory, and then goes back to the directory before. Whatever else the
/// process does meanwhile is done from within that directory, too.
///
/// # Errors
///
/// If there is no way there or back.
#[cfg(feature = "command")]
pub fn within_and_back<T>(directory: &Path, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let here = std::env::current_dir()?;
    std::env::set_current_dir(directory)?;
    let done = act();
    std::env::set_current_dir(here)?;
    done
}
