//! The lease that a daemon has itself, noted for its successor.

use std::{
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use navlock_core::ClientId;

use crate::client_files::{ClientFiles, OwnNotes};

/// What is noted of the daemon itself.
#[derive(Default)]
pub(super) struct OwnLeases(Mutex<Own>);

#[derive(Default)]
struct Own {
    /// `None` until there is something to be noted.
    notes: Option<OwnNotes>,
    noted: Vec<u8>,
}

impl OwnLeases {
    fn own(&self) -> MutexGuard<'_, Own> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the lease that it has by now, unless that stands there.
    pub(super) fn note(&self, files: &ClientFiles, lease: Vec<u8>) {
        let mut own = self.own();
        // Somebody may have removed it, or there was no room for it.
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

    /// The daemon ends. Where it leaves clients behind, it may leave names. If not, these are to be removed
    /// once it has none any more.
    pub(super) fn end(&self, leaves_any: bool) -> Option<OwnNotes> {
        let notes = self.own().notes.take();
        if leaves_any {
            // Locked until the process is gone, which may tell of its names until then.
            mem::forget(notes);
            return None;
        }
        notes
    }
}
