//! The files of the clients of the machine's broker. Only the broker can make and write them. It passes each to the
//! client as a descriptor that can only be read, and by which the file is locked.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::Path,
};

use navlock_platform::file_lock;
use navlock_wire::{ClientKey, FileTask};

use super::{
    ClientFiles, LOCKS, LockState, NOTES, TEMPORARY, inherited, look_at, remove_if_there, whose,
};
use crate::{
    Place,
    client::ask_for_file,
    connect_error::{ConnectError, Reason},
    lock_file::{self, open_existing, open_or_make, remove},
};

/// The client's end.
impl ClientFiles {
    /// Asks the broker to do this with a file of this client. Returns the file, if the broker made one: locked, and
    /// not locked.
    pub(super) fn ask(
        place: &Place,
        client: ClientKey,
        task: FileTask,
    ) -> io::Result<Option<[File; 2]>> {
        let files = ask_for_file(place, client, task).map_err(|reason| {
            let kind = match reason {
                Reason::Refused(_) => ErrorKind::Other,
                _ => ErrorKind::NotConnected,
            };
            io::Error::new(kind, ConnectError { socket: place.socket().to_owned(), reason })
        })?;
        Ok(files.try_into().ok())
    }
}

/// The broker's end.
impl ClientFiles {
    /// Does this with a file of a client, whose process is this one. Returns the file, if one was made: locked, and
    /// not locked.
    ///
    /// # Errors
    ///
    /// If the file cannot be made or written.
    pub(crate) fn serve(
        &self,
        client: ClientKey,
        process: Option<u32>,
        task: &FileTask,
    ) -> io::Result<Option<[File; 2]>> {
        self.make_directory()?;
        match task {
            // A file that is locked was given to a client, or is on its way there. On their way, files count against
            // the limit of the broker's user.
            FileTask::Own => {
                let path = self.path(client);
                refuse_locked(&path)?;
                let (file, given) = make(&path)?;
                whose::note_of(&file, process)?;
                Ok(Some(given))
            }
            FileTask::Reserve => {
                refuse_locked(&self.beside(client, LOCKS))?;
                refuse_locked(&self.beside(client, TEMPORARY))?;
                make(&self.beside(client, TEMPORARY)).map(|(_, given)| Some(given))
            }
            FileTask::Inherit { claims } => {
                let (reserved, path) = (self.beside(client, TEMPORARY), self.beside(client, LOCKS));
                match lock_file::open_to_write(&reserved) {
                    Ok(file) => {
                        inherited::rewrite(&file, claims)?;
                        fs::rename(&reserved, &path)?;
                    }
                    Err(_) => inherited::rewrite(&lock_file::open_to_write(&path)?, claims)?,
                }
                Ok(None)
            }
            FileTask::Revoke => {
                // It keeps its name as long as somebody has it locked. An empty file says that nothing is inherited.
                if let Ok(file) = lock_file::open_to_write(&self.beside(client, LOCKS)) {
                    file.set_len(0)?;
                }
                Ok(None)
            }
        }
    }

    /// Opens the notes of what this client holds. They are made if they are not there.
    ///
    /// # Errors
    ///
    /// If they cannot be.
    pub(crate) fn open_notes(&self, client: ClientKey) -> io::Result<File> {
        self.make_directory()?;
        open_or_make(&self.beside(client, NOTES))
    }

    /// Removes these notes of what this client holds. From here on no broker believes the client.
    pub(crate) fn forget_notes(&self, client: ClientKey, notes: &File) {
        remove(&self.beside(client, NOTES), notes);
    }

    /// Removes the notes of a client that will not come back.
    pub(crate) fn forget_notes_of_dead(&self, client: ClientKey) {
        let _ = remove_if_there(&self.beside(client, NOTES));
    }

    /// Whether any file of this client is locked. Removes those that are not.
    pub(crate) fn has_locked(&self, client: ClientKey) -> bool {
        let paths = [self.path(client), self.beside(client, LOCKS), self.beside(client, TEMPORARY)];
        paths.iter().filter(|path| !matches!(look_at(path), LockState::Free)).count() > 0
    }
}

/// # Errors
///
/// If the file at this path is locked.
fn refuse_locked(path: &Path) -> io::Result<()> {
    match look_at(path) {
        LockState::Free => Ok(()),
        LockState::Locked(_) | LockState::Unknown(_) => {
            Err(io::Error::new(ErrorKind::AlreadyExists, "the client has such a file already"))
        }
    }
}

/// Makes a file. Returns it, and what the client gets: a descriptor by which it is locked, and another one. Neither
/// can be written to.
fn make(path: &Path) -> io::Result<(File, [File; 2])> {
    remove_if_there(path)?;
    let file = open_or_make(path)?;
    let (locked, other) = (open_existing(path)?, open_existing(path)?);
    if !file_lock::try_exclusive(&locked)? {
        return Err(ErrorKind::WouldBlock.into());
    }
    Ok((file, [locked, other]))
}
