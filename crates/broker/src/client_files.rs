//! The files by which a daemon knows which clients of an earlier daemon live, and which processes have
//! inherited locks.
//!
//! The existence of a file means nothing. What counts is that the file is locked. The kernel
//! unlocks a file when the last process that has it open ends. Only of a client's own file it counts besides that the
//! client's process has not ended (`whose.rs`).
//!
//! - `KEY` is the client's own file, which the client has locked as long as it lives. The file is
//!   a map of the locks that the client holds and of the names that it owns (`navlock_delegation`), or says only
//!   which process the client is.
//! - `KEY.locks` is locked by the processes that have inherited locks of that client, such as the command of
//!   `navlock run`. The file contains the messages by which the client would claim these locks.
//! - `KEY.leases` is not locked. If another service keeps the locks for the time of a lease, the
//!   daemon notes the leases of the client's agents in this file, so that the next daemon can end
//!   them if the client is dead.
//! - `KEY.broker` is locked by a daemon as long as the daemon lives. This `KEY` belongs to the
//!   daemon. In this file, the daemon notes the leases that it has itself, under which the machine
//!   owns names.
//! - `KEY.held` is a note of the machine's broker, which several users share: what the client holds by the word of
//!   that broker (`held_notes.rs`). Nobody else can read it. All files in such a place are the broker's (`served.rs`).
//! - `removed` is the note of a daemon that this directory was removed. The next daemon then looks in
//!   `/proc` for files of inherited locks that are gone and still locked.
//!
//! As long as a client's own file stands at its path, nobody else was granted what the client
//! holds. When a daemon gives a client up, because the client did not come back in time or because
//! the daemon has hung up on it, the daemon removes the file before it frees the client's locks. So
//! a client without a daemon holds its locks as long as its file stands, however long that is, and
//! has lost them when the file is gone. The same is true of inherited locks and `KEY.locks`.
//!
//! Whoever removes these files by hand takes away the broker's memory. Nothing changes while the broker
//! lives. But when it is killed, the clients whose files are gone have lost their locks, and are told of
//! that.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::Duration,
};

use navlock_platform::{descriptor::Counted, file::create_private_directory, file_lock, process};
use navlock_wire::{ClientKey, FileTask};

pub(crate) use self::{
    found::{Dead, Found},
    inherited::{Inherited, InheritedFile, Reserved},
    leases::OwnNotes,
    registration::Registration,
};
use crate::{
    Place,
    lock_file::{self, remove},
};

/// How long to wait for the lock of a file that is being made, because a daemon may be checking the
/// file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause before the next try of something that the system has refused.
const PAUSE: Duration = Duration::from_millis(100);

/// The directory of these files.
#[derive(Clone, Debug)]
pub(crate) struct ClientFiles {
    directory: PathBuf,
    /// The place, if only its broker can write there, and this is one of its clients.
    served: Option<Place>,
}

/// The state of a file's lock.
enum LockState {
    /// Some process has the lock.
    Locked(File),
    /// Nobody has the lock. The file is gone, or was just removed.
    Free,
    /// This cannot be found out now, perhaps because there are no descriptors left.
    Unknown(io::Error),
}

impl ClientFiles {
    /// The files of a place, for its broker.
    pub(crate) fn of(place: &Place) -> Self {
        Self { directory: place.clients(), served: None }
    }

    /// The files of a place, for a client.
    pub(crate) fn of_client(place: &Place) -> Self {
        let served = place.is_of_system().then(|| place.clone());
        Self { served, ..Self::of(place) }
    }

    /// Makes this client's own file, and locks it.
    pub(crate) fn register(&self, client: ClientKey) -> io::Result<Registration> {
        let path = self.path(client);
        if let Some(place) = &self.served {
            let made = Self::ask(place, client, FileTask::Own)?;
            let [locked, _] = made.ok_or(ErrorKind::NotFound)?;
            return Ok(Registration::new(path, locked, true));
        }
        self.make_directory()?;
        let locked = lock_at(&path)?;
        // Where there is no room for it, the file is as good for all else.
        let _ = whose::note(&locked);
        Ok(Registration::new(path, locked, false))
    }

    /// A client's own file, to be mapped.
    ///
    /// # Errors
    ///
    /// If there is no such file, or if it cannot be opened now.
    pub(crate) fn open_own(&self, client: ClientKey) -> io::Result<File> {
        lock_file::open_to_share(&self.path(client))
    }

    /// Whether the client's own file is there, locked or not.
    pub(crate) fn has_own(&self, client: ClientKey) -> bool {
        lock_file::identity_at(&self.path(client)).is_some()
    }

    /// Whether the client lives, or may live. If it does not, removes its file.
    pub(crate) fn lives(&self, client: ClientKey) -> bool {
        !matches!(self.look_at_own(client), LockState::Free)
    }

    /// The state of a client's own file. Removes it if the client has ended.
    fn look_at_own(&self, client: ClientKey) -> LockState {
        let path = self.path(client);
        match look_at(&path) {
            LockState::Locked(file) if whose::has_ended(&file) => {
                remove(&path, &file);
                LockState::Free
            }
            state => state,
        }
    }

    /// Whether any client lives, which would start the next daemon. This is for lookers: it removes no
    /// files and keeps none open.
    pub(crate) fn has_living(&self) -> bool {
        let lives = |client: &ClientKey| {
            let file = lock_file::open_existing(&self.path(*client));
            let is_locked = |file: &File| matches!(file_lock::try_shared(file), Ok(false));
            file.is_ok_and(|file| is_locked(&file) && !whose::has_ended(&file))
        };
        self.own_files().is_ok_and(|clients| clients.iter().any(lives))
    }

    /// Removes the client's own file. From here on, the client's locks may be granted to others.
    ///
    /// # Errors
    ///
    /// If the file cannot be removed.
    pub(crate) fn give_up(&self, client: ClientKey) -> io::Result<()> {
        remove_if_there(&self.path(client))
    }

    /// The clients whose own files are there, locked or not.
    ///
    /// # Errors
    ///
    /// If this cannot be found out.
    pub(crate) fn own_files(&self) -> io::Result<Vec<ClientKey>> {
        Ok(self.names()?.iter().filter_map(|name| client(name)).collect())
    }

    /// Finds all files, and removes those that should be locked and are not.
    ///
    /// # Errors
    ///
    /// If the directory cannot be read.
    pub(crate) fn find(&self) -> io::Result<Found> {
        let mut found = Found::default();
        let names = self.names()?;
        let (mut unlocked, mut leased) = (HashSet::new(), Vec::new());
        for name in names.iter().filter_map(|name| name.to_str()) {
            let (key, extension) = name.split_once('.').unwrap_or((name, ""));
            let Some(client) = parse(key) else {
                continue;
            };
            let is_wanted = || !matches!(look_at(&self.directory.join(name)), LockState::Free);
            match extension {
                "" if self.lives(client) => found.living.push(client),
                "" => _ = unlocked.insert(client),
                LEASES => leased.push(client),
                BROKER => found.brokers.push(client),
                NOTES => found.noted.push(client),
                LOCKS => match look_at(&self.directory.join(name)) {
                    LockState::Locked(file) => {
                        found.inherited_from.push(client);
                        found
                            .inherited_files
                            .extend(Counted::if_few(file).map(|file| (client, file)));
                    }
                    LockState::Unknown(_) => found.inherited_from.push(client),
                    LockState::Free => {}
                },
                // If the file is not locked, its writer was killed, and the file is removed.
                TEMPORARY | TEMPORARY_LEASES => drop(is_wanted()),
                _ => {}
            }
        }
        self.find_removed(&mut found);
        let alive: HashSet<_> = found.living.iter().chain(&found.inherited_from).collect();
        let dead = leased.into_iter().filter(|client| !alive.contains(client));
        found.dead =
            dead.map(|client| Dead { client, is_certain: unlocked.contains(&client) }).collect();
        Ok(found)
    }

    /// Notes for the next daemon that files of inherited locks may be gone that are still locked. Nobody can
    /// give such a file its name back.
    pub(crate) fn note_removal(&self) {
        // A disk that is full has no room for the note. Then all is as if the daemon had noticed nothing.
        let _ = lock_file::open_to_append(&self.directory.join(REMOVED));
    }

    /// If an earlier daemon has noted that files were removed, finds those of inherited locks through the
    /// processes that have them open.
    fn find_removed(&self, found: &mut Found) {
        let note = self.directory.join(REMOVED);
        // The kernel tells names without links.
        let Some(directory) = note.exists().then(|| self.directory.canonicalize().ok()).flatten()
        else {
            return;
        };
        let mut is_needed = false;
        for (name, file) in process::open_from(&directory, LOCKS) {
            let client = name.to_str().and_then(|name| parse(name.split_once('.')?.0));
            let Some(client) = client.filter(|client| !found.inherited_from.contains(client))
            else {
                continue;
            };
            if !lock_file::is_ours(&file) || matches!(self.inherited_by(client, &file), Ok(None)) {
                continue;
            }
            is_needed = true;
            found.inherited_from.push(client);
            found.inherited_files.extend(Counted::if_few(file).map(|file| (client, file)));
        }
        if !is_needed {
            let _ = remove_if_there(&note);
        }
    }

    /// Whether the client has ended, and no living process has inherited locks from it.
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

    /// The file of a client, or of a daemon, with this extension.
    fn beside(&self, client: ClientKey, extension: &str) -> PathBuf {
        self.path(client).with_extension(extension)
    }

    /// The names of all files, collected, because whoever asks may remove some of them.
    fn names(&self) -> io::Result<Vec<OsString>> {
        match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            entries => entries?.map(|entry| Ok(entry?.file_name())).collect(),
        }
    }
}

/// The extension of files of inherited locks.
pub(crate) const LOCKS: &str = "locks";

/// The extension of such a file that is being written.
const TEMPORARY: &str = "new";

/// The extension of notes of leases.
const LEASES: &str = "leases";

/// The extension of such a note that is being written anew.
const TEMPORARY_LEASES: &str = "leases-new";

/// The extension of a daemon's notes of its own leases.
const BROKER: &str = "broker";

/// The extension of the notes of what a client of the machine's broker holds.
const NOTES: &str = "held";

/// The name of the note that files were removed.
const REMOVED: &str = "removed";

/// The client whose own file has this name.
pub(crate) fn client(name: &OsStr) -> Option<ClientKey> {
    parse(name.to_str()?)
}

fn parse(key: &str) -> Option<ClientKey> {
    (key.len() == 32).then(|| u128::from_str_radix(key, 16).ok())?.map(u128::to_be_bytes)
}

/// Makes a file, and locks it.
fn lock_at(path: &Path) -> io::Result<File> {
    Ok(lock_file::lock(path, LOCK_TIMEOUT)?.ok_or(ErrorKind::WouldBlock)?)
}

/// Finds out whether the file is locked. Removes the file if it is not.
fn look_at(path: &Path) -> LockState {
    let file = match lock_file::open_existing(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return LockState::Free,
        Err(error) => return LockState::Unknown(error),
    };
    match is_locked(&file) {
        Ok(true) => LockState::Locked(file),
        Ok(false) => {
            // The file is removed while we have it locked, so it is no file that another process
            // has just made and locked.
            remove(path, &file);
            LockState::Free
        }
        Err(error) => LockState::Unknown(error),
    }
}

/// Whether another process has the file locked. If not, we have it locked from here on.
fn is_locked(file: &File) -> io::Result<bool> {
    file_lock::try_exclusive(file).map(|is_ours| !is_ours)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

mod found;
mod inherited;
mod leases;
mod registration;
mod served;
#[cfg(test)]
mod tests;
mod whose;
