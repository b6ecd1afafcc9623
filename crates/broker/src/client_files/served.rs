//! The files of the clients of the machine's broker. Only the broker can make and write them. It passes each to the
//! client as a descriptor that can only be read, and by which the file is locked.

use std::{
    fmt,
    fs::{self, File},
    io::{self, ErrorKind},
    path::Path,
};

use navlock_platform::file_lock;
use navlock_wire::{ClientKey, FileTask, FromDaemon, ToDaemon};

use super::{ClientFiles, inherited, remove_if_there, whose};
use crate::{
    Place,
    client::ask_for_file,
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
        let failed = |error: &dyn fmt::Display| io::Error::other(error.to_string());
        let question = ToDaemon::File { client, task };
        let (answer, files) = ask_for_file(place, &question).map_err(|error| failed(&error))?;
        match answer {
            FromDaemon::File { outcome: Ok(()) } => Ok(files.try_into().ok()),
            FromDaemon::File { outcome: Err(why) } => Err(failed(&why)),
            _ => Err(failed(&"the broker answered another question")),
        }
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
            FileTask::Own => {
                let path = self.path(client);
                // An earlier file of the same client would be one that it has lost.
                remove_if_there(&path)?;
                let (file, given) = make(&self.temporary_path(client))?;
                whose::note_of(&file, process)?;
                fs::rename(self.temporary_path(client), &path)?;
                Ok(Some(given))
            }
            FileTask::Reserve => make(&self.temporary_path(client)).map(|(_, given)| Some(given)),
            FileTask::Inherit { claims } => {
                let (reserved, path) = (self.temporary_path(client), self.inherited_path(client));
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
                let path = self.inherited_path(client);
                if let Ok(file) = lock_file::open_to_write(&path) {
                    file.set_len(0)?;
                    remove(&path, &file);
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
        open_or_make(&self.notes_path(client))
    }

    /// Removes the notes of what this client holds. From here on no broker believes the client.
    pub(crate) fn forget_notes(&self, client: ClientKey) {
        let _ = remove_if_there(&self.notes_path(client));
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
