//! The files of inherited locks.

use std::{
    fs::File,
    io::{self, ErrorKind, Read, Seek},
    path::PathBuf,
    thread,
};

use navlock_platform::{
    file::{replace, write_all_at},
    file_lock,
};
use navlock_wire::{ClientKey, FileTask};

use super::{
    ClientFiles, LOCKS, LockState, PAUSE, TEMPORARY, is_locked, lock_at, look_at, remove_if_there,
};
use crate::{
    Place,
    lock_file::{self, Identity, remove},
};

/// How often a broker that cannot be reached is asked to write what is inherited: for 20 s.
const TRIES: u32 = 200;

/// A file with room for the locks that others will inherit from a client. Nobody holds locks by it yet. To
/// drop this gives the room back.
#[derive(Debug)]
pub(crate) struct Reserved {
    files: ClientFiles,
    client: ClientKey,
    /// The file; `None` when it was handed over.
    file: Option<File>,
    /// The same file, not locked by this descriptor, if the broker has made it.
    served: Option<File>,
}

/// A file of inherited locks, open for writing. This does not keep the file locked, because the lock says
/// that a process lives that has inherited the locks. Even if somebody has removed the file, it is of use to
/// write to it, because a daemon may have it open.
#[derive(Debug)]
pub(crate) struct InheritedFile {
    file: File,
    path: PathBuf,
    /// Whose file it is, if only the broker of this place can write it.
    served: Option<(Place, ClientKey)>,
}

/// A file of inherited locks.
#[derive(Debug)]
pub(crate) struct Inherited {
    file: File,
    path: PathBuf,
}

impl ClientFiles {
    /// Makes a file with room of this many bytes for the locks that others will inherit from this client.
    /// There can be one for each client.
    ///
    /// # Errors
    ///
    /// If there is not enough room.
    pub(crate) fn reserve(&self, client: ClientKey, room: usize) -> io::Result<Reserved> {
        if let Some(place) = &self.served {
            let made = Self::ask(place, client, FileTask::Reserve)?;
            let [locked, other] = made.ok_or(ErrorKind::NotFound)?;
            let (file, served) = (Some(locked), Some(other));
            return Ok(Reserved { files: self.clone(), client, file, served });
        }
        self.make_directory()?;
        // The file gets its name last, so any process that finds the file finds it locked and
        // complete.
        let file = lock_at(&self.beside(client, TEMPORARY))?;
        let reserved = Reserved { files: self.clone(), client, file: Some(file), served: None };
        // The file is filled with zeros, because to make a file long does not allocate room on the
        // disk.
        io::copy(&mut io::repeat(0).take(room as u64), &mut reserved.file()?)?;
        Ok(reserved)
    }

    /// The file of a client's inherited locks, for writing it anew, if the file has this identity.
    pub(crate) fn written(&self, client: ClientKey, file: Identity) -> Option<InheritedFile> {
        let path = self.beside(client, LOCKS);
        let opened = lock_file::open_to_write(&path).ok()?;
        let is_it = lock_file::identity_of(&opened) == Some(file);
        is_it.then_some(InheritedFile { file: opened, path, served: None })
    }

    /// The file of a client's inherited locks, for [`inherited_by`](Self::inherited_by).
    pub(crate) fn open_inherited(&self, client: ClientKey) -> Option<File> {
        lock_file::open_existing(&self.beside(client, LOCKS)).ok()
    }

    /// The file of a client's inherited locks, found through a process that has the file open. The name of
    /// the file may be gone.
    pub(crate) fn open_inherited_of(&self, client: ClientKey, pid: u32) -> Option<File> {
        lock_file::open_of(pid, self.beside(client, LOCKS).file_name()?)
    }

    /// Does what [`inherited`](Self::inherited) does, with a file that was opened before. Somebody may
    /// have removed its name since.
    ///
    /// # Errors
    ///
    /// If that cannot be told for the moment.
    pub(crate) fn inherited_by(
        &self,
        client: ClientKey,
        file: &File,
    ) -> io::Result<Option<Inherited>> {
        // An empty file means that the inherited locks are lost.
        if !is_locked(file)? || file.metadata()?.len() == 0 {
            return Ok(None);
        }
        Ok(Some(Inherited { file: file.try_clone()?, path: self.beside(client, LOCKS) }))
    }

    /// The locks of a client that living processes have inherited.
    ///
    /// # Errors
    ///
    /// If that cannot be told for the moment.
    pub(crate) fn inherited(&self, client: ClientKey) -> io::Result<Option<Inherited>> {
        let found = locked_at(self.beside(client, LOCKS))?;
        // An empty file means that the inherited locks are lost.
        Ok(found.filter(|found| found.file.metadata().is_ok_and(|file| file.len() > 0)))
    }

    /// The client's own file, as long as the client lives, for waiting for its end.
    ///
    /// # Errors
    ///
    /// If that cannot be told for the moment.
    pub(crate) fn own(&self, client: ClientKey) -> io::Result<Option<Inherited>> {
        locked_at(self.path(client))
    }

    /// Whether the processes that had this file locked have ended, the client itself or those that have
    /// `inherited` its locks. If that cannot be told, they live.
    pub(crate) fn have_ended(&self, client: ClientKey, file: Identity, inherited: bool) -> bool {
        let path = if inherited { self.beside(client, LOCKS) } else { self.path(client) };
        let Ok(opened) = lock_file::open_existing(&path) else { return false };
        lock_file::identity_of(&opened) == Some(file)
            && file_lock::try_shared(&opened).unwrap_or(false)
    }

    /// Removes the file of this client's inherited locks. From here on, these locks may be granted
    /// to others, so a later daemon must not believe that processes have inherited them.
    pub(crate) fn forget_inherited(&self, client: ClientKey) {
        // The file could not be read. If it cannot be removed either, nothing more can be done.
        let _ = remove_if_there(&self.beside(client, LOCKS));
    }
}

impl Reserved {
    /// Writes the claims of the locks that others inherit from the client from now on. The file is locked as
    /// long as a copy of the descriptor is open.
    pub(crate) fn hand_over(mut self, claims: &[u8]) -> io::Result<(File, InheritedFile)> {
        if let (Some(place), Some(other)) = (&self.files.served, self.served.take()) {
            let (path, client) = (self.files.beside(self.client, LOCKS), self.client);
            let served = Some((place.clone(), client));
            let written = InheritedFile { file: other, path, served };
            // The lock is held by now, and stays held while a broker takes over from another.
            let mut tries = 1;
            while let Err(error) = written.try_rewrite(claims) {
                if error.kind() != ErrorKind::NotConnected || tries >= TRIES {
                    return Err(error);
                }
                tries += 1;
                thread::sleep(PAUSE);
            }
            let file = self.file.take().ok_or(ErrorKind::NotFound)?;
            return Ok((file, written));
        }
        loop {
            match self.name(claims) {
                // Somebody has removed the file before it was handed over.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    self = self.files.reserve(self.client, claims.len())?;
                }
                Err(error) => return Err(error),
                Ok(written) => {
                    let file = self.file.take().ok_or(ErrorKind::NotFound)?;
                    return Ok((file, written));
                }
            }
        }
    }

    /// Writes the file and gives it its name.
    fn name(&self, claims: &[u8]) -> io::Result<InheritedFile> {
        let (path, file) = (self.files.beside(self.client, LOCKS), self.file()?);
        let temporary = self.files.beside(self.client, TEMPORARY);
        let opened = lock_file::open_to_write(&temporary)?;
        if lock_file::identity_of(&opened) != lock_file::identity_of(file) {
            return Err(ErrorKind::NotFound.into());
        }
        rewrite(&opened, claims)?;
        replace(&temporary, &path)?;
        Ok(InheritedFile { file: opened, path, served: None })
    }

    pub(crate) fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl InheritedFile {
    /// Writes the claims anew.
    pub(crate) fn rewrite(&self, claims: &[u8]) {
        // If there is no room for more, the file stays as it was.
        let _ = self.try_rewrite(claims);
    }

    fn try_rewrite(&self, claims: &[u8]) -> io::Result<()> {
        match &self.served {
            Some((place, client)) => {
                let task = FileTask::Inherit { claims: claims.to_vec() };
                ClientFiles::ask(place, *client, task).map(drop)
            }
            None => rewrite(&self.file, claims),
        }
    }

    /// Whether a process has inherited the file. If that cannot be found out, one may have.
    pub(crate) fn is_inherited(&self) -> bool {
        let is_locked = is_locked(&self.file).unwrap_or(true);
        if !is_locked {
            let _ = file_lock::unlock(&self.file);
        }
        is_locked
    }

    /// Writes that nothing is inherited any more.
    pub(crate) fn revoke(&self) {
        if let Some((place, client)) = &self.served {
            // Without a broker, the processes that have inherited the file hold the locks until they end.
            let _ = ClientFiles::ask(place, *client, FileTask::Revoke);
            return;
        }
        // A daemon may have the file open. An empty file tells the daemon that the locks are lost,
        // and that the file was not only removed.
        let _ = self.file.set_len(0);
        remove(&self.path, &self.file);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(file) = self.file.as_ref().filter(|_| self.files.served.is_none()) {
            remove(&self.files.beside(self.client, TEMPORARY), file);
        }
    }
}

impl Inherited {
    /// The claims in the file: encoded messages.
    pub(crate) fn claims(&mut self) -> io::Result<Vec<u8>> {
        let mut claims = Vec::new();
        self.file.rewind()?;
        self.file.read_to_end(&mut claims)?;
        Ok(claims)
    }

    /// The identity of the file.
    pub(crate) fn identity(&self) -> Option<Identity> {
        lock_file::identity_of(&self.file)
    }

    /// Blocks until the last process that has inherited the file has closed it, and until `and` returns.
    pub(crate) fn wait(self, and: impl FnOnce()) {
        loop {
            match file_lock::shared(&self.file) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Perhaps the kernel has no room for the lock. The locks stay as long as it is not
                // known whether the processes live.
                Err(_) => thread::sleep(PAUSE),
            }
        }
        and();
        remove(&self.path, &self.file);
    }
}

/// The file, if another process has it locked.
fn locked_at(path: PathBuf) -> io::Result<Option<Inherited>> {
    match look_at(&path) {
        LockState::Locked(file) => Ok(Some(Inherited { file, path })),
        LockState::Free => Ok(None),
        LockState::Unknown(error) => Err(error),
    }
}

/// Replaces the content of the file, which stays as it was if there is no room for more.
pub(super) fn rewrite(file: &File, claims: &[u8]) -> io::Result<()> {
    let before = file.metadata()?.len();
    let known = usize::try_from(before).unwrap_or(usize::MAX).min(claims.len());
    let (head, tail) = claims.split_at(known);
    // The part that needs more room is written first. To overwrite the rest needs no room.
    if let Err(error) = write_all_at(file, tail, known as u64) {
        file.set_len(before)?;
        return Err(error);
    }
    write_all_at(file, head, 0)?;
    file.set_len(claims.len() as u64)
}
