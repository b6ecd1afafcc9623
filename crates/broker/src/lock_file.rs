//! Lock files, and the safe ways to open a file that must belong to this user.

use std::{
    ffi::OsStr,
    fs,
    io::{self, Read},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use navlock_platform::{
    file::{self, careful},
    file_lock::try_exclusive,
    process,
    user::ours,
};

pub(crate) use navlock_platform::file::Identity;

/// The pause between two tries to get a lock doubles from `SHORTEST_PAUSE` to `LONGEST_PAUSE`. Many
/// clients may wait for the client that starts a broker, and that client needs the processor more
/// than they do.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

/// How often a lock file is made anew, each time because somebody has removed it before it was locked.
/// Brokers remove a lock file at their end, which happens once or twice at the same time. A program that
/// removes files in a loop may do so some hundred times in a row before this process has its turn.
const MOST_REMOVALS: usize = 10_000;

/// Locks the file at `path`, and makes it if it is not there. To drop the returned file releases
/// the lock. `None` if somebody else has the lock for longer than `timeout`.
///
/// # Errors
///
/// If the file cannot be made or is not ours, or if somebody removes it again and again.
pub(crate) fn lock(path: &Path, timeout: Duration) -> io::Result<Option<fs::File>> {
    lock_opened(path, timeout, || open_or_make(path))
}

/// Locks the file that `open` opens at `path`.
fn lock_opened(
    path: &Path,
    timeout: Duration,
    open: impl Fn() -> io::Result<fs::File>,
) -> io::Result<Option<fs::File>> {
    let deadline = Instant::now() + timeout;
    let mut pause = SHORTEST_PAUSE;
    for _ in 0..MOST_REMOVALS {
        let file = open()?;
        loop {
            if try_exclusive(&file)? {
                break;
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            // The system offers no wait for a file lock with a deadline.
            thread::sleep(pause);
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
        // A file that was removed before it was locked here is of no use: others lock a new one.
        if is_at(&file, path) {
            return Ok(Some(file));
        }
    }
    let why = "somebody removes it again and again; end whatever removes files in its directory";
    Err(io::Error::other(why))
}

/// Opens a file for reading and writing. It is made if it is not there.
///
/// # Errors
///
/// If there is something at the path that is no file, or is not ours.
pub(crate) fn open_or_make(path: &Path) -> io::Result<fs::File> {
    open_ours(path, careful().read(true).write(true).create(true))
}

/// Opens an existing file for reading, without waiting, because there may be a pipe at its path that
/// nobody writes to.
///
/// # Errors
///
/// If there is none, or it is no file, or not ours.
pub(crate) fn open_existing(path: &Path) -> io::Result<fs::File> {
    open_ours(path, careful().read(true))
}

/// Opens an existing file for writing.
///
/// # Errors
///
/// If there is none, or it is no file, or not ours.
pub(crate) fn open_to_write(path: &Path) -> io::Result<fs::File> {
    open_ours(path, careful().write(true))
}

/// Opens an existing file for reading and writing.
///
/// # Errors
///
/// If there is none, or it is no file, or not ours.
pub(crate) fn open_to_share(path: &Path) -> io::Result<fs::File> {
    open_ours(path, careful().read(true).write(true))
}

/// Opens a file to write to its end. It is made if it is not there.
///
/// # Errors
///
/// If there is something at the path that is no file, or is not ours.
pub(crate) fn open_to_append(path: &Path) -> io::Result<fs::File> {
    open_ours(path, careful().append(true).create(true))
}

fn open_ours(path: &Path, how: &fs::OpenOptions) -> io::Result<fs::File> {
    checked(how.open(path)?)
}

/// Returns the file if it is a regular file, and ours.
fn checked(file: fs::File) -> io::Result<fs::File> {
    check(&file).map(|()| file)
}

/// Whether it is a regular file, and ours.
pub(crate) fn is_ours(file: &fs::File) -> bool {
    check(file).is_ok()
}

fn check(file: &fs::File) -> io::Result<()> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file; remove it"));
    }
    let owner = file::owner_of(file, &found);
    if owner != ours() {
        let why = format!("it is owned by uid {owner}; have it removed");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

/// Locks the file at `path` if it exists and nobody has it locked.
pub(crate) fn lock_existing(path: &Path) -> io::Result<Option<fs::File>> {
    let file = open_existing(path)?;
    Ok(try_exclusive(&file)?.then_some(file))
}

/// The text of a short file of ours; `None` if it cannot be read, or is longer than any such file.
pub(crate) fn read_short(path: &Path) -> Option<String> {
    const ENOUGH: u64 = 64;
    let mut text = String::new();
    open_existing(path).ok()?.take(ENOUGH).read_to_string(&mut text).ok()?;
    (text.len() as u64 != ENOUGH).then_some(text)
}

/// Whether this file is the one at this path.
pub(crate) fn is_at(file: &fs::File, path: &Path) -> bool {
    identity_of(file).is_some_and(|identity| identity_at(path) == Some(identity))
}

/// Removes this file, unless another file has its name now.
pub(crate) fn remove(path: &Path, file: &fs::File) {
    if is_at(file, path) {
        let _ = fs::remove_file(path);
    }
}

/// The identity of this file, which no other file has.
pub(crate) fn identity_of(file: &fs::File) -> Option<Identity> {
    file::identity_of(file).ok()
}

/// The identity of the file at this path, if there is one.
pub(crate) fn identity_at(path: &Path) -> Option<Identity> {
    file::identity_at(path).ok()
}

/// Opens, for reading, the file with this name that the process with this id has open. The file may
/// have been removed.
pub(crate) fn open_of(pid: u32, name: &OsStr) -> Option<fs::File> {
    process::open_of(pid, name, is_ours).ok()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::{cell::Cell, path::PathBuf};

    use tempfile::TempDir;

    use super::*;

    /// How long a test waits for a lock that it must get.
    const LONG: Duration = Duration::from_secs(20);

    /// A folder for one test, and the path of a lock file in it, which is not there yet.
    fn lock_path() -> (TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        (directory, path)
    }

    /// The lock, if it can be had at once.
    fn try_lock(path: &Path) -> Option<fs::File> {
        lock(path, Duration::ZERO).unwrap()
    }

    /// Waits for the lock.
    fn wait_for_lock(path: &Path) -> fs::File {
        lock(path, LONG).unwrap().expect("it is free in good time")
    }

    fn how_often_open(path: &Path) -> usize {
        let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        links.filter(|link| link == path).count()
    }

    #[test]
    fn a_lock_is_free_again_when_its_file_is_dropped() {
        let (_directory, path) = lock_path();
        let held = try_lock(&path).expect("nobody has it");
        assert!(try_lock(&path).is_none());
        drop(held);
        // Another test may be starting a process. Until that process has its program, it has a copy of
        // the dropped file, and so the lock.
        wait_for_lock(&path);
    }

    #[test]
    fn threads_that_count_under_a_lock_lose_nothing() {
        let (directory, path) = lock_path();
        let counter = directory.path().join("counter");
        fs::write(&counter, "0").unwrap();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let _held = wait_for_lock(&path);
                    let last: u32 = fs::read_to_string(&counter).unwrap().parse().unwrap();
                    thread::yield_now();
                    fs::write(&counter, (last + 1).to_string()).unwrap();
                });
            }
        });
        assert_eq!(fs::read_to_string(&counter).unwrap(), "8");
    }

    #[test]
    fn waiting_for_a_lock_file_ends_without_the_lock_after_the_timeout() {
        let (_directory, path) = lock_path();
        let _held = try_lock(&path).expect("nobody has it");
        let (began, timeout) = (Instant::now(), Duration::from_millis(50));
        assert!(lock(&path, timeout).unwrap().is_none());
        assert!(began.elapsed() >= timeout);
    }

    #[test]
    fn a_file_that_was_removed_while_somebody_waited_for_it_is_not_locked() {
        let (_directory, path) = lock_path();
        let held = try_lock(&path).expect("nobody has it");
        thread::scope(|scope| {
            let waiter = scope.spawn(|| wait_for_lock(&path));
            while how_often_open(&path) < 2 {
                assert!(!waiter.is_finished());
                thread::yield_now();
            }
            fs::remove_file(&path).unwrap();
            drop(held);
            let locked = waiter.join().unwrap();
            assert_eq!(identity_at(&path), identity_of(&locked));
        });
    }

    #[test]
    fn a_file_that_somebody_removes_each_time_is_given_up() {
        let (_directory, path) = lock_path();
        let removals = Cell::new(0);
        let lock_removed = |most| {
            removals.set(0);
            lock_opened(&path, Duration::ZERO, || {
                let file = open_or_make(&path)?;
                if removals.get() < most {
                    removals.set(removals.get() + 1);
                    fs::remove_file(&path)?;
                }
                Ok(file)
            })
        };
        assert!(lock_removed(MOST_REMOVALS - 1).unwrap().is_some());
        let said = lock_removed(usize::MAX).unwrap_err().to_string();
        assert_eq!(removals.get(), MOST_REMOVALS);
        assert!(said.starts_with("somebody removes it again and again"), "{said}");
    }

    #[test]
    fn only_a_file_is_opened_and_a_pipe_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let (folder, pipe) = (directory.path().join("folder"), directory.path().join("pipe"));
        fs::create_dir(&folder).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert!(lock(&folder, Duration::ZERO).is_err());
        for opened in [lock(&pipe, Duration::ZERO).map(drop), open_existing(&pipe).map(drop)] {
            assert_eq!(opened.unwrap_err().to_string(), "it is no file; remove it");
        }
        assert_eq!(read_short(&folder).or_else(|| read_short(&pipe)), None);
    }

    #[test]
    fn a_link_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(lock(&link, Duration::ZERO).is_err());
        assert_eq!((read_short(&link), read_short(&file).as_deref()), (None, Some("x")));
    }

    #[test]
    fn a_text_that_is_longer_than_any_of_ours_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("text");
        for (length, is_read) in [(0, true), (63, true), (64, false), (1 << 20, false)] {
            fs::write(&path, "x".repeat(length)).unwrap();
            assert_eq!(read_short(&path).map(|text| text.len()), is_read.then_some(length));
        }
    }
}
