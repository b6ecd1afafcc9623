//! Which entries of a snapshot count as the same.

use navlock_core::{ClientId, LockInfo, Mode, ResourceName};

/// The name, mode and agent of a lock or request. Entries of a snapshot that agree in these cannot
/// be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct EntryKey<'a> {
    pub(super) name: &'a ResourceName,
    pub(super) mode: Mode,
    pub(super) client_id: ClientId,
}

impl<'a> EntryKey<'a> {
    /// The key of an entry of a snapshot.
    pub(super) fn of(entry: &'a LockInfo) -> Self {
        Self { name: &entry.name, mode: entry.mode, client_id: entry.client_id }
    }
}
