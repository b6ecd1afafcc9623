//! The notes of leases.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read, Write},
    path::PathBuf,
};

use navlock_wire::ClientKey;

use super::{ClientFiles, UNBORN_LEASES, is_locked, lock_at, remove, remove_if_there};
use crate::lock_file;

/// What a daemon notes of itself. Dropping it says that the daemon is dead.
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
    /// If it cannot be noted.
    pub(crate) fn note_lease(&self, client: ClientKey, lease: &[u8]) -> io::Result<()> {
        note(&lock_file::open_to_append(&self.leases_path(client))?, lease)
    }

    /// Notes these leases in place of those that were noted.
    ///
    /// # Errors
    ///
    /// If they cannot be noted. Then the others are.
    pub(crate) fn note_leases<'a>(
        &self,
        client: ClientKey,
        leases: impl Iterator<Item = &'a Vec<u8>>,
    ) -> io::Result<()> {
        let unborn = self.path(client).with_extension(UNBORN_LEASES);
        remove_if_there(&unborn)?;
        let lines: String = leases.map(|lease| hex(lease) + "\n").collect();
        lock_file::open_to_append(&unborn)?.write_all(lines.as_bytes())?;
        fs::rename(&unborn, self.leases_path(client))
    }

    /// The leases of a client's agents, with some that have ended.
    pub(crate) fn leases(&self, client: ClientKey) -> Vec<Vec<u8>> {
        let file = lock_file::open_existing(&self.leases_path(client));
        file.map(noted).unwrap_or_default()
    }

    /// Whether leases are noted.
    pub(crate) fn has_leases(&self, client: ClientKey) -> bool {
        lock_file::identity_at(&self.leases_path(client)).is_some()
    }

    /// Nothing is left to be ended.
    pub(crate) fn forget_leases(&self, client: ClientKey) {
        // Else the next daemon finds that.
        let _ = remove_if_there(&self.leases_path(client));
    }

    /// Where a daemon that goes by this key notes leases of its own.
    ///
    /// # Errors
    ///
    /// If they cannot be noted.
    pub(crate) fn begin_own_notes(&self, broker: ClientKey) -> io::Result<OwnNotes> {
        self.make_directory()?;
        let path = self.broker_path(broker);
        let locked = lock_at(&path)?;
        Ok(OwnNotes { path, locked })
    }

    /// The leases that a daemon had itself which is dead; `None` if it lives, or that cannot be told for the
    /// moment.
    pub(crate) fn left_by_broker(&self, broker: ClientKey) -> Option<Vec<Vec<u8>>> {
        let file = match lock_file::open_existing(&self.broker_path(broker)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Some(Vec::new()),
            file => file.ok()?,
        };
        (!is_locked(&file).ok()?).then(|| noted(file))
    }

    /// Nothing is left of that to be ended.
    pub(crate) fn forget_broker(&self, broker: ClientKey) {
        let _ = remove_if_there(&self.broker_path(broker));
    }
}

impl OwnNotes {
    /// Notes one more lease.
    ///
    /// # Errors
    ///
    /// If it cannot be noted.
    pub(crate) fn note(&self, lease: &[u8]) -> io::Result<()> {
        note(&self.locked, lease)
    }

    /// Whether it is still where the next daemon looks for it.
    pub(crate) fn stands(&self) -> bool {
        lock_file::is_at(&self.locked, &self.path)
    }

    /// There is nothing that anybody has to end.
    pub(crate) fn remove(self) {
        remove(&self.path, &self.locked);
    }
}

/// The leases that are noted in a file.
fn noted(mut file: File) -> Vec<Vec<u8>> {
    let mut text = String::new();
    // As far as it is text.
    let _ = file.read_to_string(&mut text);
    // A line that is not whole is no line.
    let lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    lines.filter_map(from_hex).collect()
}

/// Notes one more. It ends what there was no room for the last time.
fn note(mut file: &File, lease: &[u8]) -> io::Result<()> {
    file.write_all(format!("\n{}\n", hex(lease)).as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// `None` if it is not what [`hex`] writes of something.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    let is_whole = !text.is_empty() && text.len() % 2 == 0 && text.is_ascii();
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).ok();
    is_whole.then(|| (0..text.len()).step_by(2).map(byte).collect())?
}
