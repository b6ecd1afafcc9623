//! Files that exist for their locks.

use std::{
    ffi::OsStr,
    fs,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};
#[cfg(target_os = "linux")]
use std::{os::unix::ffi::OsStrExt, path::PathBuf};

use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock},
    io::Errno,
};

use crate::runtime_dir::uid;

/// Locks the file at `path`, which is made if it is not there. Dropping it releases the lock.
/// `None` if somebody else has it for longer than `patience`.
pub(crate) fn lock(path: &Path, patience: Duration) -> io::Result<Option<fs::File>> {
    let deadline = Instant::now() + patience;
    loop {
        let file = open(path)?;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                // There is no waiting for a file lock with a deadline.
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(2));
                }
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        // Or it was removed before we had it, and others lock a new one.
        if is_at(&file, path) {
            return Ok(Some(file));
        }
    }
}

fn open(path: &Path) -> io::Result<fs::File> {
    open_ours(path, OFlags::RDWR | OFlags::CREATE)
}

/// Opens a file that is there for reading, without waiting for anything: what stands at its path may
/// be a pipe that nobody writes to.
///
/// # Errors
///
/// If there is none, or it is no file, or not ours.
pub(crate) fn open_existing(path: &Path) -> io::Result<fs::File> {
    open_ours(path, OFlags::RDONLY)
}

/// Opens a file that is there for writing.
///
/// # Errors
///
/// If there is none, or it is no file, or not ours.
pub(crate) fn open_to_write(path: &Path) -> io::Result<fs::File> {
    open_ours(path, OFlags::WRONLY)
}

/// Opens a file that is there for reading and writing.
///
/// # Errors
///
/// If there is none, or it is no file, or not ours.
pub(crate) fn open_to_share(path: &Path) -> io::Result<fs::File> {
    open_ours(path, OFlags::RDWR)
}

/// Opens a file to write to its end. It is made if it is not there.
///
/// # Errors
///
/// If what is there is no file, or not ours.
pub(crate) fn open_to_append(path: &Path) -> io::Result<fs::File> {
    open_ours(path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
}

fn open_ours(path: &Path, access: OFlags) -> io::Result<fs::File> {
    open_to_own(path, access | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK)
}

fn open_to_own(path: &Path, flags: OFlags) -> io::Result<fs::File> {
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file; remove it"));
    }
    if found.uid() != uid() {
        let why = format!("it is owned by uid {}; have it removed", found.uid());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(file)
}

/// Locks the file at `path` if it is there and nobody has it.
pub(crate) fn lock_existing(path: &Path) -> io::Result<Option<fs::File>> {
    let file = open_existing(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What a short file of ours says; `None` if it cannot be read, or is longer than any of ours.
pub(crate) fn read_short(path: &Path) -> Option<String> {
    const ENOUGH: u64 = 64;
    let mut text = String::new();
    open_existing(path).ok()?.take(ENOUGH).read_to_string(&mut text).ok()?;
    (text.len() as u64 != ENOUGH).then_some(text)
}

/// What tells a file from all others that exist.
pub(crate) type Identity = (u64, u64);

/// The identity of the file with this metadata.
fn identity(metadata: &fs::Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// Whether this file is the one at this path.
pub(crate) fn is_at(file: &fs::File, path: &Path) -> bool {
    identity_of(file).is_some_and(|identity| identity_at(path) == Some(identity))
}

/// What tells this file from all others.
pub(crate) fn identity_of(file: &fs::File) -> Option<Identity> {
    file.metadata().ok().as_ref().map(identity)
}

/// The identity of what is at this path, if anything is.
pub(crate) fn identity_at(path: &Path) -> Option<Identity> {
    fs::symlink_metadata(path).ok().as_ref().map(identity)
}

/// Whether the process of this number has this file open, whose name ends so.
#[cfg(target_os = "linux")]
pub(crate) fn is_open_in(pid: u32, file: Identity, extension: &str) -> bool {
    let is_such = |name: &Path| name.extension().is_some_and(|is| is == extension);
    let mut open = open_in(pid, is_such);
    open.any(|path| fs::metadata(path).is_ok_and(|found| identity(&found) == file))
}

/// Opens the file of this name that the process of this number has open, for reading. Somebody may
/// have removed it.
#[cfg(target_os = "linux")]
pub(crate) fn open_of(pid: u32, name: &OsStr) -> Option<fs::File> {
    let mut open = open_in(pid, |path| path.file_name() == Some(name));
    // What is there is a link to it.
    open.find_map(|path| {
        open_to_own(&path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK).ok()
    })
}

/// Elsewhere it cannot be told.
#[cfg(not(target_os = "linux"))]
pub(crate) fn open_of(_: u32, _: &OsStr) -> Option<fs::File> {
    None
}

/// What a process has open that has, or had, such a name.
///
/// Only what has such a name is to be looked at: its other files may be on a file system that does
/// not answer, and to ask for their names alone does not touch that.
#[cfg(target_os = "linux")]
fn open_in(pid: u32, is_such: impl Fn(&Path) -> bool) -> impl Iterator<Item = PathBuf> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.map(|entry| entry.path()).filter(move |path| {
        fs::read_link(path).is_ok_and(|name| {
            let name = name.as_os_str().as_bytes();
            // The kernel's mark of what was removed.
            let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
            is_such(Path::new(OsStr::from_bytes(name)))
        })
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn how_often_open(path: &Path) -> usize {
        let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        links.filter(|link| link == path).count()
    }

    #[test]
    fn a_file_that_was_removed_while_somebody_waited_for_it_is_not_locked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = lock(&path, Duration::ZERO).unwrap().unwrap();
        assert!(lock(&path, Duration::ZERO).unwrap().is_none());
        thread::scope(|scope| {
            let waiter = scope.spawn(|| lock(&path, Duration::from_secs(20)).unwrap().unwrap());
            while how_often_open(&path) < 2 {
                assert!(!waiter.is_finished());
                thread::yield_now();
            }
            fs::remove_file(&path).unwrap();
            drop(first);
            let locked = waiter.join().unwrap();
            let there = fs::metadata(&path).unwrap();
            assert_eq!(identity(&locked.metadata().unwrap()), identity(&there));
        });
    }
}
