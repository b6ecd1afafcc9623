//! The lease that a daemon has itself, which it notes for the next daemon.

use std::{mem, sync::Mutex};

use navlock_core::ClientId;

use crate::{
    client_files::{ClientFiles, OwnNotes},
    sync::lock,
};

/// The daemon's notes of its own lease.
#[derive(Default)]
pub(super) struct OwnLeases(Mutex<Own>);

#[derive(Default)]
struct Own {
    /// The file; `None` until there is a lease to note.
    notes: Option<OwnNotes>,
    noted: Vec<u8>,
}

impl OwnLeases {
    /// Notes the lease that the daemon has now, if this lease is not noted yet.
    pub(super) fn note(&self, files: &ClientFiles, lease: Vec<u8>) {
        let mut own = lock(&self.0);
        // Somebody may have removed the file, or there was no room for the note.
        if !own.notes.as_ref().is_some_and(OwnNotes::stands) {
            own.notes = files.begin_own_notes(ClientId::random().to_bytes()).ok();
            own.noted.clear();
        }
        if own.noted == lease {
            return;
        }
        if own.notes.as_ref().is_some_and(|notes| notes.note(&lease).is_ok()) {
            own.noted = lease;
        }
    }

    /// To be called when the daemon ends. If the daemon leaves clients behind, it may leave owned names as
    /// well, and the notes stay. If not, returns the notes, which the caller removes once the daemon's
    /// lease has ended.
    pub(super) fn end(&self, leaves_any: bool) -> Option<OwnNotes> {
        let notes = lock(&self.0).notes.take();
        if leaves_any {
            // The file stays locked until the process has ended, because the process may grant its
            // owned names until then.
            mem::forget(notes);
            return None;
        }
        notes
    }
}
