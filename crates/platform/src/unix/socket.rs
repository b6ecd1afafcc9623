//! Sockets at paths: connections between the processes of one machine.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::FileTypeExt,
    path::Path,
};

use rustix::{
    buffer::spare_capacity,
    net::{SendFlags, Shutdown, SocketAddrUnix},
};

use crate::descriptor::Descriptor;

/// One end of a connection.
pub type Stream = std::os::unix::net::UnixStream;

/// What is connected to.
pub type Listener = std::os::unix::net::UnixListener;

/// One end of a connection, for a runtime of tokio.
pub type AsyncStream = tokio::net::UnixStream;

/// What is connected to, for a runtime of tokio.
pub type AsyncListener = tokio::net::UnixListener;

/// The longest path of a socket, in bytes, that is used, with room for another name under which it is
/// made. What the kernel takes is 104 bytes at least, with the zero at the end.
pub const MAX_PATH: usize = 99;

/// Whether what stands at this path, which has this metadata, is a socket.
pub fn is_at(_: &Path, found: &Metadata) -> bool {
    found.file_type().is_socket()
}

/// Whether the system takes a path as long as this one for a socket.
pub fn fits(path: &Path) -> bool {
    SocketAddrUnix::new(path).is_ok()
}

/// Two ends of a connection: one to hear by, and one that a program gets as its standard output.
///
/// # Errors
///
/// If there are no descriptors left.
pub fn hearing() -> io::Result<(Stream, Descriptor)> {
    let (hears, says) = Stream::pair()?;
    Ok((hears, says.into()))
}

/// Connects without waiting for the other end to have room, which one that was stopped never has.
///
/// # Errors
///
/// `NotFound` or `ConnectionRefused` if nobody listens, `WouldBlock` if as many wait as may.
#[cfg(not(target_vendor = "apple"))]
pub fn connect(path: &Path) -> io::Result<Stream> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = Stream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Connects. Nobody waits for room here: without it, one is refused.
///
/// # Errors
///
/// `NotFound` or `ConnectionRefused` if nobody listens.
#[cfg(target_vendor = "apple")]
pub fn connect(path: &Path) -> io::Result<Stream> {
    Stream::connect(path)
}

/// Listens at `path`, where nothing but this user's processes find it. Whoever can see a socket can
/// connect to it: it gets its name last, and is made by another.
///
/// # Errors
///
/// If it cannot be made.
pub fn listen(unborn: &Path, path: &Path) -> io::Result<AsyncListener> {
    match fs::remove_file(unborn) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = AsyncListener::bind(unborn)?;
    crate::file::make_private(unborn)?;
    crate::file::replace(unborn, path)?;
    Ok(listener)
}

/// Listens at a path, with a socket that is made as one of this user alone. What the whole process
/// makes at the same time is so, too.
///
/// # Errors
///
/// `AddrInUse` if there is something.
#[cfg(feature = "command")]
pub fn bind_private(path: &Path) -> io::Result<Listener> {
    use rustix::{fs::Mode, process::umask};
    // It is made so: to change it afterwards would be too late.
    let before = umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
    let listener = Listener::bind(path);
    umask(before);
    listener
}

/// Sends as much as there is room for; whoever does not block is told `WouldBlock` where there is none.
/// No signal comes of it if the other end has gone.
///
/// # Errors
///
/// As of send(2).
pub fn send(socket: &Stream, bytes: &[u8]) -> io::Result<usize> {
    // The standard library keeps the signal away where there is no such flag.
    #[cfg(not(target_vendor = "apple"))]
    let flags = SendFlags::NOSIGNAL;
    #[cfg(target_vendor = "apple")]
    let flags = SendFlags::empty();
    Ok(rustix::net::send(socket, bytes, flags)?)
}

/// Reads what there is into memory of `into` that was not written to yet; 0 at the end.
///
/// # Errors
///
/// As of read(2).
pub fn read_into_spare(socket: &Stream, into: &mut Vec<u8>) -> io::Result<usize> {
    Ok(rustix::io::read(socket, spare_capacity(into))?)
}

/// Ends a connection, at both ends.
pub fn shut_down(socket: &AsyncStream) {
    // It may have ended.
    let _ = rustix::net::shutdown(socket, Shutdown::Both);
}

/// The same end of a connection, for another runtime or none. It does not block, as little as the other.
///
/// # Errors
///
/// If there are no descriptors left.
pub fn another(socket: &AsyncStream) -> io::Result<Stream> {
    use std::os::fd::AsFd;
    socket.as_fd().try_clone_to_owned().map(Into::into)
}

/// Two ends of a connection: one to talk by, and one that a program of ours gets as its standard output, which
/// takes it by [`of_output`].
///
/// # Errors
///
/// If there are no descriptors for them.
#[cfg(feature = "command")]
pub fn talking() -> io::Result<(Stream, crate::descriptor::Descriptor)> {
    let (ours, theirs) = Stream::pair()?;
    Ok((ours, theirs.into()))
}

/// The end of a connection that this process has as its standard output. From then on there is nothing
/// in its place.
///
/// # Errors
///
/// If that is no connection: `InvalidInput`.
#[cfg(feature = "command")]
pub fn of_output() -> io::Result<Stream> {
    use std::os::fd::AsFd;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    if rustix::net::sockopt::socket_type(&output).is_err() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    crate::descriptor::leave(&[crate::descriptor::Stream::Output])?;
    Ok(output.into())
}

/// Does this from within a directory, and leaves it for the root: for sockets whose paths are longer than
/// the system takes, in a process that has no other path from where it is.
///
/// # Errors
///
/// If there is no way there.
#[cfg(feature = "command")]
pub fn within<T>(directory: &Path, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    std::env::set_current_dir(directory)?;
    let done = act();
    let _ = std::env::set_current_dir("/");
    done
}

/// The same, and comes back. What the process does meanwhile is done from there, too.
///
/// # Errors
///
/// If there is no way there or back.
#[cfg(feature = "command")]
pub fn within_and_back<T>(directory: &Path, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    use rustix::{
        fs::{CWD, Mode, OFlags, openat},
        process::fchdir,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let here = openat(CWD, ".", flags, Mode::empty())?;
    std::env::set_current_dir(directory)?;
    let done = act();
    fchdir(here)?;
    done
}
