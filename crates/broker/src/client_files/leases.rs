//! The notes of leases.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read, Write},
    path::PathBuf,
};

use navlock_wire::ClientKey;

use super::{BROKER, ClientFiles, LEASES, TEMPORARY_LEASES, is_locked, lock_at, remove_if_there};
use crate::lock_file::{self, remove};

/// A daemon's notes of its own leases. To drop this unlocks the file, and an unlocked file says
/// that the daemon is dead.
#[derive(Debug)]
pub(crate) struct OwnNotes {
    path: PathBuf,
    locked: File,
}

impl ClientFiles {
    /// Notes one more lease of a client's agents.
    ///
    /// # Errors
    ///
    /// If the lease cannot be noted.
    pub(crate) fn note_lease(&self, client: ClientKey, lease: &[u8]) -> io::Result<()> {
        note(&lock_file::open_to_append(&self.beside(client, LEASES))?, lease)
    }

    /// Replaces the notes by these leases.
    ///
    /// # Errors
    ///
    /// If the leases cannot be noted. In this case, the old notes stay.
    pub(crate) fn note_leases<'a>(
        &self,
        client: ClientKey,
        leases: impl Iterator<Item = &'a Vec<u8>>,
    ) -> io::Result<()> {
        let temporary = self.beside(client, TEMPORARY_LEASES);
        remove_if_there(&temporary)?;
        let lines: String = leases.map(|lease| hex(lease) + "\n").collect();
        lock_file::open_to_append(&temporary)?.write_all(lines.as_bytes())?;
        fs::rename(&temporary, self.beside(client, LEASES))
    }

    /// The leases of a client's agents, perhaps with some that have ended.
    pub(crate) fn leases(&self, client: ClientKey) -> Vec<Vec<u8>> {
        let file = lock_file::open_existing(&self.beside(client, LEASES));
        file.map(noted).unwrap_or_default()
    }

    /// Whether leases are noted.
    pub(crate) fn has_leases(&self, client: ClientKey) -> bool {
        lock_file::identity_at(&self.beside(client, LEASES)).is_some()
    }

    /// Removes the notes of a client, because no lease is left to end.
    pub(crate) fn forget_leases(&self, client: ClientKey) {
        // If this fails, the next daemon finds out that no lease is left.
        let _ = remove_if_there(&self.beside(client, LEASES));
    }

    /// Begins the notes of a daemon with this key on its own leases.
    ///
    /// # Errors
    ///
    /// If the notes cannot be begun.
    pub(crate) fn begin_own_notes(&self, broker: ClientKey) -> io::Result<OwnNotes> {
        self.make_directory()?;
        let path = self.beside(broker, BROKER);
        let locked = lock_at(&path)?;
        Ok(OwnNotes { path, locked })
    }

    /// The leases that a dead daemon had itself; `None` if the daemon lives, or if this cannot be
    /// found out now.
    pub(crate) fn left_by_broker(&self, broker: ClientKey) -> Option<Vec<Vec<u8>>> {
        let file = match lock_file::open_existing(&self.beside(broker, BROKER)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Some(Vec::new()),
            file => file.ok()?,
        };
        (!is_locked(&file).ok()?).then(|| noted(file))
    }

    /// Removes the notes of a dead daemon, because none of its leases is left to end.
    pub(crate) fn forget_broker(&self, broker: ClientKey) {
        let _ = remove_if_there(&self.beside(broker, BROKER));
    }
}

impl OwnNotes {
    /// Notes one more lease.
    ///
    /// # Errors
    ///
    /// If the lease cannot be noted.
    pub(crate) fn note(&self, lease: &[u8]) -> io::Result<()> {
        note(&self.locked, lease)
    }

    /// Whether the file is still at its path, where the next daemon looks for it.
    pub(crate) fn stands(&self) -> bool {
        lock_file::is_at(&self.locked, &self.path)
    }

    /// Removes the notes, because the daemon has ended its leases itself.
    pub(crate) fn remove(self) {
        remove(&self.path, &self.locked);
    }
}

/// The leases that are noted in a file.
fn noted(mut file: File) -> Vec<Vec<u8>> {
    let mut text = String::new();
    // After an error, the text that was read until then counts.
    let _ = file.read_to_string(&mut text);
    // An incomplete line does not count.
    let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    lines.filter_map(from_hex).collect()
}

/// Notes one more lease. The note begins with a line break, in case the last note was incomplete
/// because there was no room.
fn note(mut file: &File, lease: &[u8]) -> io::Result<()> {
    file.write_all(format!("\n{}\n", hex(lease)).as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The inverse of [`hex`]; `None` for any other text.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    let is_whole = !text.is_empty() && text.len() % 2 == 0 && text.is_ascii();
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).ok();
    is_whole.then(|| (0..text.len()).step_by(2).map(byte).collect())?
}
