//! The Unix socket at which a page without a port is served.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::{self, Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use navlock_platform::{
    file::{Identity, identity_at, open_directory_behind},
    file_lock::try_exclusive,
    socket::{Listener, bind_private, connect, fits, is_at, within_and_back},
};

/// How long another process may take to make its socket.
const ALONE: Duration = Duration::from_secs(2);

/// The file of a socket, by which others find it.
#[derive(Clone, Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// The identity of the file, which another file with this name does not have.
    identity: Identity,
}

impl SocketFile {
    /// Removes the file, if it is still this one.
    pub(super) fn remove(&self) {
        if identity_at(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens at a socket that no other user can connect to. It replaces a socket that was left
/// behind, but no other file.
///
/// # Errors
///
/// `AddrInUse` if somebody listens there, or another file is there.
pub(super) fn listen(path: &Path) -> io::Result<(Listener, SocketFile)> {
    let path = path::absolute(path)?;
    let _alone = path.parent().map(alone_in).transpose()?;
    if is_left_behind(&path) {
        fs::remove_file(&path)?;
    }
    let listener = reach(&path, bind_private)?;
    let identity = identity_at(&path)?;
    Ok((listener, SocketFile { path, identity }))
}

/// Keeps others from doing this in the same directory, as long as the caller keeps the returned
/// file. Otherwise, if two processes found the same socket left behind, one could remove the new
/// socket of the other.
fn alone_in(directory: &Path) -> io::Result<File> {
    let file = open_directory_behind(directory)?;
    let deadline = Instant::now() + ALONE;
    loop {
        match try_exclusive(&file) {
            Ok(false) if Instant::now() < deadline => thread::sleep(ALONE / 100),
            Ok(false) => {
                let why = format!("{} is locked by another process", directory.display());
                return Err(io::Error::new(ErrorKind::TimedOut, why));
            }
            Err(error) if error.kind() == ErrorKind::Interrupted && Instant::now() < deadline => {}
            // If a directory cannot be locked at all, this goes on without the lock.
            _ => return Ok(file),
        }
    }
}

/// Whether this is a socket that nobody listens at.
fn is_left_behind(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| is_at(path, &file));
    let refused = |error: io::Error| error.kind() == ErrorKind::ConnectionRefused;
    is_socket && reach(path, connect).is_err_and(refused)
}

/// Runs `act` on a socket, from within its directory if the path is longer than the system takes.
fn reach<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return act(path) };
    if fits(path) { act(path) } else { within_and_back(directory, || act(Path::new(name))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_was_left_behind_is_replaced_and_a_listening_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("web.sock");
        let (first, _) = listen(&path).unwrap();
        assert_eq!(listen(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        connect(&path).unwrap();
        drop(first);
        let (_second, file) = listen(&path).unwrap();
        connect(&path).unwrap();
        file.remove();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        // A file that is no socket is left alone.
        fs::write(&path, "text").unwrap();
        assert_eq!(listen(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(fs::read(&path).unwrap(), b"text");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_socket_of_somebody_else_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("web.sock");
        let (first, file) = listen(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let (_second, _) = listen(&path).unwrap();
        file.remove();
        drop(first);
        connect(&path).unwrap();
    }
}
