//! The socket of a hold. It is in the directory of this user's broker, and is named after the hold's id.
//!
//! A question is a line, and so is its answer. Nobody listens at the socket of a hold that has
//! ended. Any process that finds such a socket removes it.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use navlock::{ClientId, Place};
use navlock_platform::{
    descriptor::Descriptor,
    file::{self, Identity, identity_at},
    peer,
    socket::{Listener, Stream, connect, within},
    user::ours,
    wait::{BorrowedSource, Source},
    watch::removal,
};

/// The end of a socket's name while the keeper that listens at it does not have the locks yet.
const TEMPORARY: &str = "new";

/// A socket with such a name that is older than this was abandoned.
const ABANDONED: Duration = Duration::from_secs(60);

/// The socket of one hold. The file is removed when the value is dropped.
pub(super) struct Socket {
    listener: Listener,
    place: Place,
    /// The socket's name at the moment.
    name: String,
    id: ClientId,
    /// The identity of the file, which another file with this name does not have.
    identity: Identity,
    /// Tells that the file was removed, once it has its final name.
    removal: Option<Descriptor>,
}

impl Socket {
    /// Listens at a temporary name, at which others do not look. Changes the working folder.
    ///
    /// # Errors
    ///
    /// If the directory cannot be used, or there is no room in it.
    pub(super) fn prepare(place: &Place, id: ClientId) -> io::Result<Self> {
        make(place)?;
        sweep(&place.holds());
        Self::listen(place.clone(), id)
    }

    /// Listens from within the directory, because a path may be longer than the system takes for a
    /// socket.
    fn listen(place: Place, id: ClientId) -> io::Result<Self> {
        let directory = place.holds();
        let name = format!("{id}.{TEMPORARY}");
        let listener = within(&directory, || Listener::bind(&name))?;
        listener.set_nonblocking(true)?;
        let identity = identity_at(&directory.join(&name))?;
        Ok(Self { listener, place, name, id, identity, removal: None })
    }

    /// Gives the socket its final name, at which others look.
    pub(super) fn publish(&mut self) -> io::Result<()> {
        let (directory, name) = (self.place.holds(), self.id.to_string());
        fs::rename(directory.join(&self.name), directory.join(&name))?;
        self.name = name;
        self.watch();
        Ok(())
    }

    /// Listens at another socket if this one was removed, for example by a program that cleans
    /// `/tmp`.
    pub(super) fn mend(&mut self) -> io::Result<()> {
        if self.is_there() {
            return Ok(());
        }
        make(&self.place)?;
        let _ = fs::remove_file(self.place.holds().join(format!("{}.{TEMPORARY}", self.id)));
        *self = Self::listen(self.place.clone(), self.id)?;
        self.publish()
    }

    fn path(&self) -> PathBuf {
        self.place.holds().join(&self.name)
    }

    fn is_there(&self) -> bool {
        identity_at(&self.path()).is_ok_and(|found| found == self.identity)
    }

    /// Watches the socket anew. A watch that has told something would tell it again and again.
    pub(super) fn watch(&mut self) {
        self.removal = removal(&self.path());
    }

    /// Readable once the socket may have been removed.
    pub(super) fn removal(&self) -> Option<BorrowedSource<'_>> {
        self.removal.as_ref().map(Source::source)
    }

    pub(super) fn listener(&self) -> &Listener {
        &self.listener
    }

    /// The next connection of this user.
    pub(super) fn accept(&self) -> Option<Stream> {
        let (stream, _) = self.listener.accept().ok()?;
        stream.set_nonblocking(true).ok()?;
        (peer::of(&stream).ok()?.user == ours()).then_some(stream)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.is_there() {
            let _ = fs::remove_file(self.path());
        }
    }
}

/// Makes the directory, and checks that only this user may use it.
fn make(place: &Place) -> io::Result<()> {
    let directory = place.holds();
    // Whoever connects to this user's own broker makes the directory above.
    if place.is_of_system() {
        Place::of_user().prepare().map_err(io::Error::other)?;
    }
    match file::create_private_directory(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    check(&directory)
}

/// Checks that only this user may use a directory.
fn check(directory: &Path) -> io::Result<()> {
    const OTHERS: u32 = 0o077;
    let found = fs::symlink_metadata(directory)?;
    let is_ours = || {
        file::owner_at(directory, &found) == ours()
            && file::mode_at(directory, &found) & OTHERS == 0
    };
    if found.is_dir() && is_ours() {
        return Ok(());
    }
    let why = "it is no directory that is this user's alone (mode 0700); remove it";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Removes the sockets that nobody listens at any more.
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
    let is_temporary = path.extension() == Some(OsStr::new(TEMPORARY));
    let is_young = || {
        let changed = fs::symlink_metadata(path).and_then(|found| found.modified());
        let age = changed.map(|changed| changed.elapsed().unwrap_or_default());
        age.is_ok_and(|age| age < ABANDONED)
    };
    if is_temporary && is_young() {
        return false;
    }
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return false };
    let connected = within(directory, || connect(Path::new(name)));
    connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// A connection to the keeper of this hold, or `None` if there is no such hold.
///
/// # Errors
///
/// `WouldBlock` if the keeper's queue of connections is full. Other errors if the socket cannot be
/// used.
pub(in super::super) fn reach(place: &Place, id: ClientId) -> io::Result<Option<Stream>> {
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
