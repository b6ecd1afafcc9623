//! What locks and requests are alike in that cannot be told apart in a snapshot.

use navlock_core::{ClientId, LockInfo, Mode, ResourceName};

/// What locks and requests are alike in that cannot be told apart in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct EntryKey {
    pub(super) name: ResourceName,
    pub(super) mode: Mode,
    pub(super) client_id: ClientId,
}

impl EntryKey {
    /// That of an entry of a snapshot.
    pub(super) fn of(entry: &LockInfo) -> Self {
        Self { name: entry.name.clone(), mode: entry.mode, client_id: entry.client_id }
    }
}
