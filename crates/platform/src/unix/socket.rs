//! Sockets at paths: connections between the processes of one machine.

use std::{
    fs::{self, File, Metadata},
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{fd::AsFd, unix::fs::FileTypeExt},
    path::Path,
};

use rustix::{
    buffer::spare_capacity,
    net::{SendFlags, SocketAddrUnix},
};

use crate::descriptor::Descriptor;

/// One end of a connection.
pub type Stream = std::os::unix::net::UnixStream;

/// A socket that others connect to.
pub type Listener = std::os::unix::net::UnixListener;

/// A socket that others connect to, for a runtime of tokio.
pub type AsyncListener = tokio::net::UnixListener;

/// The longest path of a socket that is used, in bytes. It leaves room for another name under which
/// the socket is made. The kernel takes 104 bytes at least, with the zero at the end.
pub const MAX_PATH: usize = 99;

/// Whether what stands at this path, which has this metadata, is a socket.
pub fn is_at(_: &Path, found: &Metadata) -> bool {
    found.file_type().is_socket()
}

/// Whether the system takes a path as long as this one for a socket.
pub fn fits(path: &Path) -> bool {
    SocketAddrUnix::new(path).is_ok()
}

/// Two ends of a connection: one to read from, and one that a program gets as its standard output.
///
/// # Errors
///
/// If there are no descriptors left.
pub fn hearing() -> io::Result<(Stream, Descriptor)> {
    let (hears, says) = Stream::pair()?;
    Ok((hears, says.into()))
}

/// Connects without waiting for the other end to have room, which the end of a stopped process
/// never has.
///
/// # Errors
///
/// `NotFound` or `ConnectionRefused` if nobody listens, `WouldBlock` if as many connections wait as
/// are allowed.
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

/// Connects. Here this does not wait for room: without room, the connection is refused.
///
/// # Errors
///
/// `NotFound` or `ConnectionRefused` if nobody listens.
#[cfg(target_vendor = "apple")]
pub fn connect(path: &Path) -> io::Result<Stream> {
    Stream::connect(path)
}

/// Listens at `path`, where nothing but this user's processes find it. Whoever can see a socket can
/// connect to it: so it is made under another name, and gets its own last.
///
/// # Errors
///
/// If it cannot be made.
pub fn listen(temporary: &Path, path: &Path) -> io::Result<Listener> {
    match fs::remove_file(temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = Listener::bind(temporary)?;
    crate::file::make_private(temporary)?;
    crate::file::replace(temporary, path)?;
    Ok(listener)
}

/// Listens at a path, with a socket that is this user's alone from the start. So is all that the
/// process makes at the same time.
///
/// # Errors
///
/// `AddrInUse` if there is something at the path.
#[cfg(feature = "command")]
pub fn bind_private(path: &Path) -> io::Result<Listener> {
    use rustix::{fs::Mode, process::umask};
    // The socket is made with its mode: to change that afterwards would be too late.
    let before = umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
    let listener = Listener::bind(path);
    umask(before);
    listener
}

/// Sends as much as there is room for; where there is none, a socket that does not block returns
/// `WouldBlock`. No signal is raised if the other end has gone.
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

/// Sends these bytes, and with them files, which the other end gets by [`receive_with_files`]. Sends all or
/// nothing where the socket had room for all.
///
/// # Errors
///
/// As of sendmsg(2).
pub fn send_with_files(socket: &Stream, bytes: &[u8], files: [&File; 2]) -> io::Result<usize> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};
    let files = files.map(AsFd::as_fd);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    with.push(SendAncillaryMessage::ScmRights(&files));
    #[cfg(not(target_vendor = "apple"))]
    let flags = SendFlags::NOSIGNAL;
    #[cfg(target_vendor = "apple")]
    let flags = SendFlags::empty();
    Ok(sendmsg(socket, &[IoSlice::new(bytes)], &mut with, flags)?)
}

/// Reads what there is, with the files that came with it; 0 bytes at the end. Other programs that this process
/// starts do not inherit the files.
///
/// # Errors
///
/// As of recvmsg(2).
pub fn receive_with_files(
    socket: &Stream,
    bytes: &mut [u8],
    files: &mut Vec<File>,
) -> io::Result<usize> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut with = RecvAncillaryBuffer::new(&mut space);
    #[cfg(not(target_vendor = "apple"))]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(target_vendor = "apple")]
    let flags = RecvFlags::empty();
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut with, flags)?;
    for message in with.drain() {
        if let RecvAncillaryMessage::ScmRights(came) = message {
            files.extend(came.map(File::from));
        }
    }
    Ok(received.bytes)
}

/// Reads what there is into memory of `into` that was not written to yet; 0 at the end.
///
/// # Errors
///
/// As of read(2).
pub fn read_into_spare(socket: &Stream, into: &mut Vec<u8>) -> io::Result<usize> {
    Ok(rustix::io::read(socket, spare_capacity(into))?)
}

/// Two ends of a connection: one to talk through, and one that a program of ours gets as its
/// standard output, which takes it by [`of_output`].
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

/// Does this from within a directory, and then goes to the root directory: for sockets whose paths
/// are longer than the system takes, in a process that uses no other relative paths.
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

/// Does this from within a directory, and then goes back to the directory before. Whatever else the
/// process does meanwhile is done from within that directory, too.
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
