//! The lock files that make a daemon the only one of its place.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use navlock_platform::{file, machine, user::ours};

use super::daemon_error::DaemonError;
use crate::{Place, connect_error::Reason, lock_file, spawn::connect, timed_work::within};

/// How often a new daemon looks whether the earlier daemon will stay.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// How long a directory outside of the place may take to answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The outcome of a try to take a lock.
pub(super) enum LockAttempt {
    Taken(File),
    Busy,
    /// The lock cannot be taken here at all.
    Never,
}

impl LockAttempt {
    pub(super) fn of(locked: Option<File>) -> Self {
        locked.map_or(Self::Busy, Self::Taken)
    }
}

/// Takes a lock that a daemon holds for as long as it lives.
pub(super) fn take(
    place: &Place,
    path: &Path,
    deadline: Instant,
    lock: impl Fn(&Path) -> io::Result<LockAttempt>,
) -> Result<Option<File>, DaemonError> {
    loop {
        match lock(path) {
            Ok(LockAttempt::Taken(file)) => return Ok(Some(file)),
            Ok(LockAttempt::Never) => return Ok(None),
            // The daemon rarely waits here: only for a daemon that has just decided to end, and
            // does not listen any more. A daemon that listens will stay. It was just starting when
            // our starter looked for it, or it has made its socket anew.
            Ok(LockAttempt::Busy) if is_served(place) || Instant::now() >= deadline => {
                return Err(DaemonError::Taken(path.to_owned()));
            }
            Ok(LockAttempt::Busy) => {}
            Err(error) => return Err(DaemonError::Io(path.to_owned(), error)),
        }
    }
}

/// Whether a daemon listens at the place, even if its queue is full.
fn is_served(place: &Place) -> bool {
    matches!(connect(place, Duration::ZERO), Ok(Some(_)) | Err(Reason::Silent(_)))
}

/// The user's directories for a lock file that needs no home. The first one that can be used counts:
/// `/dev/shm` is memory, and always answers.
pub(super) fn shared_directories() -> impl Iterator<Item = PathBuf> {
    let there = ["/dev/shm", "/var/tmp"].into_iter().map(Path::new).filter(|path| path.is_dir());
    let own = there.map(|path| path.join(format!("navlock-{}", ours())));
    // Everybody may write there, so somebody else may have made the directory.
    own.filter(|path| {
        let _ = file::create_private_directory(path);
        Place::at(path.join("sock")).check().is_ok()
    })
}

/// Takes a lock file outside of the place. If the file system of its directory does not answer, or is
/// full, only the other lock files count.
pub(super) fn lock_aside(path: &Path) -> LockAttempt {
    let path = path.to_owned();
    let locked = within(TIMEOUT, move || -> io::Result<_> {
        let directory = path.parent().unwrap_or(Path::new("/"));
        file::create_private_directories(directory)?;
        sweep(directory);
        let locked = lock_file::lock(&path, PAUSE)?;
        locked.iter().for_each(note);
        Ok(locked)
    });
    locked.and_then(Result::ok).map_or(LockAttempt::Never, LockAttempt::of)
}

/// Removes the lock files of brokers that were killed.
fn sweep(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            if let Ok(Some(file)) = lock_file::lock_existing(&path) {
                lock_file::remove(&path, &file);
            }
        }
    }
}

const EXTENSION: &str = "lock";

/// The name of a place's lock file. No other place of any machine has the same name, now or after a
/// restart, because machines may share a home, and containers may have the same path. The name is
/// made from a directory that stays when the place is removed. This is the directory above the
/// place. If something is mounted at the place, it is the place itself, because another container
/// may have something else mounted there.
pub(super) fn lock_name(place: &Place) -> Option<String> {
    let boot = machine::boot_id()?;
    let directory = place.directory();
    let lasting = if file::is_mounted(directory) { directory } else { directory.parent()? };
    let (device, number) = file::identity_behind(lasting).ok()?;
    // This is FNV-1a. If two places had the same hash, the only harm would be that one of their
    // daemons refuses to serve.
    let hash = file::path_bytes(place.socket()).iter();
    let hash = hash.fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    });
    Some(format!("{boot}-{device:x}-{number:x}-{hash:016x}.{EXTENSION}"))
}

/// Writes our process id into the file, for people. Only the lock counts, so a full disk does no
/// harm.
pub(super) fn note(mut file: &File) {
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
}
