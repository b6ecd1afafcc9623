//! Who lives: the files by which a daemon knows the clients of the one before it, and those who have
//! inherited locks.
//!
//! That a file is there means nothing; what counts is that it is locked, and the kernel unlocks it
//! with the last process that has it open.
//!
//! - `KEY` is locked by a client itself, for as long as it lives. It is empty, or a map of what the
//!   client holds and of the names that it owns (`navlock_delegation`).
//! - `KEY.locks` is locked by whoever has inherited locks of that client, as the command of a `navlock
//!   run` has. It holds what the client would claim, in the very messages.
//! - `KEY.leases` nobody locks. Where locks are kept elsewhere for the time of a lease, the daemon notes
//!   here which leases the client's agents have, so that its successor can end them if the client is
//!   dead by then.
//! - `KEY.broker` is locked by a daemon, for as long as it lives, and `KEY` is no client's. There it notes which
//!   leases it has itself: names that stay its machine's stand under them and are no client's.
//!
//! That the own file of a client stands where it made it says one thing more: nobody was granted what
//! the client holds. A daemon removes it before it frees what a client had whom it gives up, be it that
//! the client did not come back in time or that it was hung up on. So a client that is without a
//! daemon holds what it holds as long as its file stands, however long that is, and has lost it
//! otherwise. Of the locks that others have inherited, `KEY.locks` says the same.
//!
//! Who removes these files by hand takes the broker's memory: nothing changes while it lives, but when
//! it is killed those whose files are gone have lost their locks, and are told so.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::Duration,
};

use navlock_platform::{descriptor::Counted, file::create_private_directory, file_lock};
use navlock_wire::ClientKey;

pub(crate) use self::{
    inherited::{Inherited, InheritedFile, Reserved},
    leases::OwnNotes,
};
use crate::{Place, lock_file};

/// How long the daemon may look at a file that is being made.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long between two tries at what the system refuses.
const PAUSE: Duration = Duration::from_millis(100);

/// The directory of these files.
#[derive(Clone, Debug)]
pub(crate) struct ClientFiles {
    directory: PathBuf,
}

/// A client's own file. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Registration {
    path: PathBuf,
    locked: File,
}

/// What was found of the clients of an earlier daemon.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Those who live, and will come back.
    pub(crate) living: Vec<ClientKey>,
    /// Those from whom somebody who lives has inherited locks.
    pub(crate) inherited_from: Vec<ClientKey>,
    /// Their files, as far as there are descriptors for them: somebody may remove them before they are
    /// read.
    pub(crate) inherited_files: HashMap<ClientKey, Counted<File>>,
    /// Those who are neither, and whose leases are known.
    pub(crate) dead: Vec<Dead>,
    /// Daemons that have noted leases of their own.
    pub(crate) brokers: Vec<ClientKey>,
}

/// A client that has ended and may have left leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dead {
    pub(crate) client: ClientKey,
    /// Its own file was there, and not locked. Of one whose file is gone, it may be that somebody has
    /// removed that while it lives.
    pub(crate) is_certain: bool,
}

/// What is to be known of a file's lock.
enum Looked {
    /// Somebody has it.
    Locked(File),
    /// Nobody has it. The file is gone, or was just removed.
    Free,
    /// It cannot be told for the moment, for want of descriptors perhaps.
    Unknown(io::Error),
}

impl ClientFiles {
    pub(crate) fn of(place: &Place) -> Self {
        Self { directory: place.clients() }
    }

    /// Makes it known that this client lives.
    pub(crate) fn register(&self, client: ClientKey) -> io::Result<Registration> {
        self.make_directory()?;
        let path = self.path(client);
        let locked = lock_at(&path)?;
        Ok(Registration { path, locked })
    }

    /// A client's own file, to be mapped.
    ///
    /// # Errors
    ///
    /// If there is none, or it cannot be opened for the moment.
    pub(crate) fn open_own(&self, client: ClientKey) -> io::Result<File> {
        lock_file::open_to_share(&self.path(client))
    }

    /// Whether the client's own file is there, be it locked or not.
    pub(crate) fn has_own(&self, client: ClientKey) -> bool {
        lock_file::identity_at(&self.path(client)).is_some()
    }

    /// Whether the client lives, or may live. Its file is removed if it does not.
    pub(crate) fn lives(&self, client: ClientKey) -> bool {
        !matches!(look_at(&self.path(client)), Looked::Free)
    }

    /// Whether there is a client that lives, which goes on with the next daemon if there is none. Nothing is
    /// removed, and nothing is kept: for who only looks.
    pub(crate) fn has_living(&self) -> bool {
        let lives = |client: &ClientKey| {
            let file = lock_file::open_existing(&self.path(*client));
            file.is_ok_and(|file| matches!(file_lock::try_shared(&file), Ok(false)))
        };
        self.own_files().is_ok_and(|clients| clients.iter().any(lives))
    }

    /// Notes that what this client has may be granted to others from here on.
    ///
    /// # Errors
    ///
    /// If it cannot be noted.
    pub(crate) fn give_up(&self, client: ClientKey) -> io::Result<()> {
        remove_if_there(&self.path(client))
    }

    /// The clients whose own files are there, be they locked or not.
    ///
    /// # Errors
    ///
    /// If it cannot be told.
    pub(crate) fn own_files(&self) -> io::Result<Vec<ClientKey>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        entries
            .filter_map(|entry| entry.map(|entry| client(&entry.file_name())).transpose())
            .collect()
    }

    /// All that is there, less what nobody has locked, which is removed.
    ///
    /// # Errors
    ///
    /// If it cannot be told who is there.
    pub(crate) fn find(&self) -> io::Result<Found> {
        let mut found = Found::default();
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
            entries => entries?,
        };
        // Collected first: files are removed on the way.
        let names: Vec<_> =
            entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
        let (mut unlocked, mut leased) = (HashSet::new(), Vec::new());
        for name in names.iter().filter_map(|name| name.to_str()) {
            let (key, extension) = name.split_once('.').unwrap_or((name, ""));
            let Some(client) = parse(key) else {
                continue;
            };
            let is_wanted = || !matches!(look_at(&self.directory.join(name)), Looked::Free);
            match extension {
                "" if is_wanted() => found.living.push(client),
                "" => _ = unlocked.insert(client),
                LEASES => leased.push(client),
                BROKER => found.brokers.push(client),
                LOCKS => match look_at(&self.directory.join(name)) {
                    Looked::Locked(file) => {
                        found.inherited_from.push(client);
                        found
                            .inherited_files
                            .extend(Counted::if_few(file).map(|file| (client, file)));
                    }
                    Looked::Unknown(_) => found.inherited_from.push(client),
                    Looked::Free => {}
                },
                // Somebody was killed while writing it; or it stays, if somebody is at it.
                UNBORN | UNBORN_LEASES => drop(is_wanted()),
                _ => {}
            }
        }
        let alive: HashSet<_> = found.living.iter().chain(&found.inherited_from).collect();
        let dead = leased.into_iter().filter(|client| !alive.contains(client));
        found.dead =
            dead.map(|client| Dead { client, is_certain: unlocked.contains(&client) }).collect();
        Ok(found)
    }

    /// Whether the client has ended, and nobody who lives has inherited anything of it.
    pub(crate) fn is_dead(&self, client: ClientKey) -> bool {
        !self.lives(client) && matches!(self.inherited(client), Ok(None))
    }

    fn make_directory(&self) -> io::Result<()> {
        match create_private_directory(&self.directory) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    fn path(&self, client: ClientKey) -> PathBuf {
        self.directory.join(format!("{:032x}", u128::from_be_bytes(client)))
    }

    fn unborn_path(&self, client: ClientKey) -> PathBuf {
        self.path(client).with_extension(UNBORN)
    }

    fn leases_path(&self, client: ClientKey) -> PathBuf {
        self.path(client).with_extension(LEASES)
    }

    fn broker_path(&self, broker: ClientKey) -> PathBuf {
        self.path(broker).with_extension(BROKER)
    }

    fn inherited_path(&self, client: ClientKey) -> PathBuf {
        self.path(client).with_extension(LOCKS)
    }
}

/// The extension of files of inherited locks.
pub(crate) const LOCKS: &str = "locks";

/// The extension of one that is being written.
const UNBORN: &str = "new";

/// The extension of notes of leases.
const LEASES: &str = "leases";

/// The extension of such a note that is being written anew.
const UNBORN_LEASES: &str = "leases-new";

/// The extension of what a daemon notes of itself.
const BROKER: &str = "broker";

/// The client whose own file has this name.
pub(crate) fn client(name: &OsStr) -> Option<ClientKey> {
    parse(name.to_str()?)
}

fn parse(key: &str) -> Option<ClientKey> {
    (key.len() == 32).then(|| u128::from_str_radix(key, 16).ok())?.map(u128::to_be_bytes)
}

/// Makes a file that is ours from here on, and is locked.
fn lock_at(path: &Path) -> io::Result<File> {
    Ok(lock_file::lock(path, PATIENCE)?.ok_or(ErrorKind::WouldBlock)?)
}

/// Looks who has the file locked, and removes it if nobody has.
fn look_at(path: &Path) -> Looked {
    let file = match lock_file::open_existing(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Looked::Free,
        Err(error) => return Looked::Unknown(error),
    };
    match is_locked(&file) {
        Ok(true) => Looked::Locked(file),
        Ok(false) => {
            // Under the lock, so that nobody who is just making it has it by now.
            remove(path, &file);
            Looked::Free
        }
        Err(error) => Looked::Unknown(error),
    }
}

/// Whether somebody else has it locked. If not, it is locked by us from here on.
fn is_locked(file: &File) -> io::Result<bool> {
    file_lock::try_exclusive(file).map(|is_ours| !is_ours)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes this file, unless another has its name by now.
fn remove(path: &Path, file: &File) {
    if lock_file::is_at(file, path) {
        let _ = fs::remove_file(path);
    }
}

impl Registration {
    /// The file, open for reading and writing.
    pub(crate) fn file(&self) -> &File {
        &self.locked
    }

    /// Whether it is still where a daemon looks for it.
    pub(crate) fn stands(&self) -> bool {
        lock_file::is_at(&self.locked, &self.path)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        remove(&self.path, &self.locked);
        // A map of it has it open as well.
        let _ = file_lock::unlock(&self.locked);
    }
}

mod inherited;
mod leases;
#[cfg(test)]
mod tests;
