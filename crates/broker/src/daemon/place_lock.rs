//! The locks that make a daemon the only one of its place.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
    time::{Duration, Instant},
};

use navlock_platform::{file, machine};

use super::{daemon_error::DaemonError, timed_work::within};
use crate::{Place, connect_error::Reason, lock_file, spawn::connect};

/// How often it is looked whether the daemon before is there to stay.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// How long the user's own directory may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What became of a try to take a lock.
pub(super) enum Looked {
    Taken(File),
    Busy,
    /// It cannot be had here at all.
    Never,
}

impl Looked {
    pub(super) fn of(locked: Option<File>) -> Self {
        locked.map_or(Self::Busy, Self::Taken)
    }
}

/// Takes a lock that a daemon holds for life.
pub(super) fn take(
    place: &Place,
    path: &Path,
    deadline: Instant,
    lock: impl Fn(&Path) -> io::Result<Looked>,
) -> Result<Option<File>, DaemonError> {
    loop {
        match lock(path) {
            Ok(Looked::Taken(file)) => return Ok(Some(file)),
            Ok(Looked::Never) => return Ok(None),
            // A rare wait: for a daemon that has just decided to end. It does not listen any more.
            // One that does will stay: it was starting when whoever started us looked for it, or it
            // has made its socket anew.
            Ok(Looked::Busy) if is_served(place) || Instant::now() >= deadline => {
                return Err(DaemonError::Taken(path.to_owned()));
            }
            Ok(Looked::Busy) => {}
            Err(error) => return Err(DaemonError::Io(path.to_owned(), error)),
        }
    }
}

/// Whether somebody listens at the place, be there room for one more or not.
fn is_served(place: &Place) -> bool {
    matches!(connect(place, Duration::ZERO), Ok(Some(_)) | Err(Reason::Silent(_)))
}

/// In the user's own directory, which may be on a file system that does not answer, or is full: then
/// there is only the other lock.
pub(super) fn lock_aside(path: &Path) -> Looked {
    let path = path.to_owned();
    let locked = within(PATIENCE, move || -> io::Result<_> {
        let directory = path.parent().unwrap_or(Path::new("/"));
        file::create_private_directories(directory)?;
        sweep(directory);
        let locked = lock_file::lock(&path, PAUSE)?;
        locked.iter().for_each(note);
        Ok(locked)
    });
    locked.and_then(Result::ok).map_or(Looked::Never, Looked::of)
}

/// Removes what brokers that were killed have left.
fn sweep(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            if let Ok(Some(file)) = lock_file::lock_existing(&path) {
                if lock_file::is_at(&file, &path) {
                    let _ = fs::remove_file(&path);
                }
            }
        }
    }
}

const EXTENSION: &str = "lock";

/// The name of a place that no other place of any machine has, now or after a restart: homes are
/// shared by machines, and places of one path by containers. It is that of a directory that stays when
/// the place is removed: the one above the place, or the place itself if something is mounted there,
/// which in another container may be something else.
pub(super) fn lock_name(place: &Place) -> Option<String> {
    let boot = machine::boot_id()?;
    let directory = place.directory();
    let lasting = if file::is_mounted(directory) { directory } else { directory.parent()? };
    let (device, number) = file::identity_behind(lasting).ok()?;
    // FNV-1a. Two that come to the same would only be one too careful.
    let hash = file::path_bytes(place.socket()).iter();
    let hash = hash.fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    });
    Some(format!("{boot}-{device:x}-{number:x}-{hash:016x}.{EXTENSION}"))
}

/// Notes our number, for people; the lock is what counts, also where the disk is full.
pub(super) fn note(mut file: &File) {
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
}
