//! Where a hold is reached: a socket in the broker's directory, named after its id.
//!
//! A question is a line, and the answer is one. Those who are no more are known by nobody listening:
//! their sockets are removed by whoever comes upon them.

use std::{
    env,
    ffi::OsStr,
    fs, io,
    os::unix::{
        fs::{DirBuilderExt, MetadataExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use navlock::{ClientId, Place};

/// What a socket's name ends with until it is listened at by somebody who has the locks.
const UNBORN: &str = "new";

/// How old one with such a name is that nobody is just making.
const ABANDONED: Duration = Duration::from_secs(60);

/// The socket of one hold. It is removed with this.
pub(super) struct Socket {
    listener: UnixListener,
    directory: PathBuf,
    /// Its name at the moment.
    name: String,
    id: ClientId,
    /// What tells the file from another one of this name: device and number.
    identity: (u64, u64),
}

impl Socket {
    /// Listens, but not yet where others find it. Changes the working folder.
    ///
    /// # Errors
    ///
    /// If the directory cannot be used, or there is no room in it.
    pub(super) fn prepare(place: &Place, id: ClientId) -> io::Result<Self> {
        let directory = place.holds();
        make(&directory)?;
        sweep(&directory);
        let name = format!("{id}.{UNBORN}");
        let (listener, identity) = listen(&directory, &name)?;
        Ok(Self { listener, directory, name, id, identity })
    }

    /// Has others find it.
    pub(super) fn publish(&mut self) -> io::Result<()> {
        let name = self.id.to_string();
        fs::rename(self.directory.join(&self.name), self.directory.join(&name))?;
        self.name = name;
        Ok(())
    }

    /// Listens at another socket if this one was removed, as by who cleans `/tmp`.
    pub(super) fn mend(&mut self) -> io::Result<()> {
        if self.is_there() {
            return Ok(());
        }
        make(&self.directory)?;
        let unborn = format!("{}.{UNBORN}", self.id);
        let _ = fs::remove_file(self.directory.join(&unborn));
        let (listener, identity) = listen(&self.directory, &unborn)?;
        (self.listener, self.identity, self.name) = (listener, identity, unborn);
        self.publish()
    }

    fn is_there(&self) -> bool {
        identity(&self.directory.join(&self.name)).is_ok_and(|found| found == self.identity)
    }

    pub(super) fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// The next one who has a question, and is of this user.
    pub(super) fn accept(&self) -> Option<UnixStream> {
        let (stream, _) = self.listener.accept().ok()?;
        stream.set_nonblocking(true).ok()?;
        (peer(&stream)?.uid == uid()).then_some(stream)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.is_there() {
            let _ = fs::remove_file(self.directory.join(&self.name));
        }
    }
}

/// Makes the directory, and sees that it is ours alone.
fn make(directory: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    check(directory)
}

/// Sees that a directory is ours alone.
fn check(directory: &Path) -> io::Result<()> {
    const OTHERS: u32 = 0o077;
    let found = fs::symlink_metadata(directory)?;
    if found.is_dir() && found.uid() == uid() && found.mode() & OTHERS == 0 {
        return Ok(());
    }
    let why = "it is no directory that is this user's alone (mode 0700); remove it";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// From within the directory: a path may be longer than the system takes for a socket.
fn listen(directory: &Path, name: &str) -> io::Result<(UnixListener, (u64, u64))> {
    let listener = within(directory, || UnixListener::bind(name))?;
    listener.set_nonblocking(true)?;
    Ok((listener, identity(&directory.join(name))?))
}

/// Does this in a directory, and leaves it for the root: nothing else here has a path from where we
/// are.
fn within<T>(directory: &Path, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    env::set_current_dir(directory)?;
    let done = act();
    let _ = env::set_current_dir("/");
    done
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Removes what nobody listens at any more.
fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let is_a_hold = path.file_stem().and_then(OsStr::to_str).is_some_and(is_id);
        if is_a_hold && is_abandoned(&path) {
            let _ = fs::remove_file(path);
        }
    }
}

fn is_id(name: &str) -> bool {
    name.parse::<ClientId>().is_ok()
}

fn is_abandoned(path: &Path) -> bool {
    let is_unborn = path.extension() == Some(OsStr::new(UNBORN));
    let is_young = || {
        let changed = fs::symlink_metadata(path).and_then(|found| found.modified());
        let age = changed.map(|changed| changed.elapsed().unwrap_or_default());
        age.is_ok_and(|age| age < ABANDONED)
    };
    if is_unborn && is_young() {
        return false;
    }
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return false };
    let connected = within(directory, || connect(Path::new(name)));
    connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// A connection to the one who keeps this hold, or `None` if there is none.
///
/// # Errors
///
/// `WouldBlock` if as many wait to be heard as may. Others if what is there cannot be used.
pub(in super::super) fn reach(place: &Place, id: ClientId) -> io::Result<Option<UnixStream>> {
    let (directory, name) = (place.holds(), id.to_string());
    let found = check(&directory).and_then(|()| within(&directory, || connect(name.as_ref())));
    match found {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            let _ = fs::remove_file(directory.join(name));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Connects without waiting for room, which one who was stopped never has.
#[cfg(not(target_vendor = "apple"))]
pub(in super::super) fn connect(path: &Path) -> io::Result<UnixStream> {
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with,
    };

    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// There nobody waits for room: without it, one is refused.
#[cfg(target_vendor = "apple")]
pub(in super::super) fn connect(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(path)
}

/// Who is at the other end, or made it.
pub(in super::super) struct Peer {
    uid: u32,
    /// `None` where that is not known.
    pub(in super::super) pid: Option<i32>,
}

#[cfg(target_os = "linux")]
pub(in super::super) fn peer(stream: &UnixStream) -> Option<Peer> {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

    let peer = getsockopt(stream, PeerCredentials).ok()?;
    // Of one in another container it is 0.
    Some(Peer { uid: peer.uid(), pid: Some(peer.pid()).filter(|&pid| pid > 0) })
}

/// The modes of the directory and the socket have said so.
#[cfg(not(target_os = "linux"))]
pub(in super::super) fn peer(_: &UnixStream) -> Option<Peer> {
    Some(Peer { uid: uid(), pid: None })
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
