//! One end of a connection, whose calls may block or not.

use std::{
    fmt,
    io::{self, ErrorKind, Read, Write},
    net::Shutdown,
    os::windows::io::OwnedHandle,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use windows_sys::Win32::Foundation::{ERROR_FILE_NOT_FOUND, ERROR_PIPE_BUSY};
#[cfg(feature = "command")]
use {
    crate::{
        descriptor,
        windows::{operation::associate, peek::is_pipe},
    },
    std::os::windows::io::AsHandle,
    windows_sys::Win32::Storage::FileSystem::FILE_FLAG_OVERLAPPED,
};

use super::{
    instance::{connected, instance, open},
    name::{name_at, new_name},
};
use crate::{
    wait::{BorrowedSource, Source},
    windows::pipe::{Pipe, Side, Wait},
};

/// How often to look whether there is room for one more to connect.
const ROOM: Duration = Duration::from_millis(5);

/// One end of a connection.
pub struct Stream(Arc<Shared>);

/// What all copies of one end share.
#[derive(Debug)]
struct Shared {
    pipe: Pipe,
    is_nonblocking: AtomicBool,
    read_timeout: Mutex<Option<Duration>>,
    write_timeout: Mutex<Option<Duration>>,
}

impl Stream {
    pub(super) fn new(handle: Arc<OwnedHandle>, side: Side) -> io::Result<Self> {
        let pipe = Pipe::new(handle, side)?;
        Ok(Self(Arc::new(Shared {
            pipe,
            is_nonblocking: AtomicBool::new(false),
            read_timeout: Mutex::default(),
            write_timeout: Mutex::default(),
        })))
    }

    /// Two ends of one connection.
    ///
    /// # Errors
    ///
    /// If there is no memory for them.
    pub fn pair() -> io::Result<(Self, Self)> {
        let name = new_name();
        let server = instance(&name, true)?;
        let client = connected(&name)?;
        Ok((Self::new(server, Side::Server)?, Self::new(client, Side::Client)?))
    }

    /// Connects, and waits for the other end to have room.
    ///
    /// # Errors
    ///
    /// `NotFound` or `ConnectionRefused` if nobody listens.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        loop {
            match connect(path.as_ref()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(ROOM),
                connected => return connected,
            }
        }
    }

    pub(crate) fn pipe(&self) -> &Pipe {
        &self.0.pipe
    }

    /// Another copy of the same end.
    ///
    /// # Errors
    ///
    /// None here.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(Arc::clone(&self.0)))
    }

    /// Sets whether calls block, for all copies of this end.
    ///
    /// # Errors
    ///
    /// None here.
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        self.0.is_nonblocking.store(is_nonblocking, SeqCst);
        Ok(())
    }

    /// Sets how long a read waits, for all copies of this end.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the time is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set(&self.0.read_timeout, timeout)
    }

    /// Sets how long a write waits for room, for all copies of this end.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the time is zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set(&self.0.write_timeout, timeout)
    }

    /// Ends the connection. It ends both ways, whichever is meant: a pipe has no other end.
    ///
    /// # Errors
    ///
    /// None here.
    pub fn shutdown(&self, _: Shutdown) -> io::Result<()> {
        self.pipe().shut_down();
        Ok(())
    }

    fn wait_to_read(&self) -> Wait {
        self.wait(&self.0.read_timeout)
    }

    fn wait_to_write(&self) -> Wait {
        self.wait(&self.0.write_timeout)
    }

    fn wait(&self, timeout: &Mutex<Option<Duration>>) -> Wait {
        if self.0.is_nonblocking.load(SeqCst) {
            return Wait::Never;
        }
        let timeout = *timeout.lock().unwrap_or_else(PoisonError::into_inner);
        timeout.map_or(Wait::Forever, Wait::For)
    }
}

fn set(which: &Mutex<Option<Duration>>, timeout: Option<Duration>) -> io::Result<()> {
    if timeout == Some(Duration::ZERO) {
        return Err(ErrorKind::InvalidInput.into());
    }
    *which.lock().unwrap_or_else(PoisonError::into_inner) = timeout;
    Ok(())
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stream").field(&self.0.pipe.side).finish()
    }
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.pipe().read(into, self.wait_to_read())
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pipe().write(bytes, self.wait_to_write())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Stream {
    fn source(&self) -> BorrowedSource<'_> {
        BorrowedSource::pipe(self.pipe())
    }
}

/// Connects without waiting for the other end to have room.
///
/// # Errors
///
/// `NotFound` or `ConnectionRefused` if nobody listens, `WouldBlock` if as many connections wait as are
/// allowed.
pub fn connect(path: &Path) -> io::Result<Stream> {
    let name = name_at(path)?.ok_or(ErrorKind::ConnectionRefused)?;
    let is = |error: &io::Error, code: u32| error.raw_os_error() == Some(code.cast_signed());
    match connected(&name) {
        Ok(handle) => Stream::new(handle, Side::Client),
        Err(error) if is(&error, ERROR_FILE_NOT_FOUND) => Err(ErrorKind::ConnectionRefused.into()),
        Err(error) if is(&error, ERROR_PIPE_BUSY) => Err(ErrorKind::WouldBlock.into()),
        Err(error) => Err(error),
    }
}

/// Two ends of a connection: one to read from, and one that a program gets as its standard output. The
/// program need not know how we write to pipes.
///
/// # Errors
///
/// If there is no memory for them.
pub fn hearing() -> io::Result<(Stream, OwnedHandle)> {
    let name = new_name();
    let server = instance(&name, true)?;
    let client = open(&name, 0)?;
    Ok((Stream::new(server, Side::Server)?, client))
}

/// Two ends of a connection: one to talk through, and one that a program of ours gets as its standard output,
/// which takes it by [`of_output`].
///
/// # Errors
///
/// If there is no memory for them.
#[cfg(feature = "command")]
pub fn talking() -> io::Result<(Stream, OwnedHandle)> {
    let name = new_name();
    let server = instance(&name, true)?;
    // The program that takes it associates it with its own completion port, which can be done once.
    let client = open(&name, FILE_FLAG_OVERLAPPED)?;
    Ok((Stream::new(server, Side::Server)?, client))
}

/// The end of a connection that this process has as its standard output.
///
/// # Errors
///
/// If that is no connection: `InvalidInput`.
#[cfg(feature = "command")]
pub fn of_output() -> io::Result<Stream> {
    let output = io::stdout().as_handle().try_clone_to_owned()?;
    if !is_pipe(output.as_handle()) {
        return Err(ErrorKind::InvalidInput.into());
    }
    descriptor::leave(&[descriptor::Stream::Output])?;
    associate(output.as_handle())?;
    Stream::new(Arc::new(output), Side::Client)
}
