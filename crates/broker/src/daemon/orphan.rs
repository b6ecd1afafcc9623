//! One client without a connection whose locks are kept.

use navlock_wire::ClientKey;
use tokio::task::AbortHandle;

use super::shared_client::SharedClient;
use crate::lock_file::Identity;

/// A client without a connection whose locks are kept: for those who have inherited them, or for itself.
pub(super) struct Orphan {
    pub(super) key: ClientKey,
    pub(super) client: SharedClient,
    /// The file that they have locked. `None` if that could not be looked at yet.
    pub(super) file: Option<Identity>,
    /// Whether it is the client itself, which has not come back from an earlier daemon, and the file its
    /// own.
    pub(super) sleeps: bool,
    /// Whether a thread waits for their end.
    pub(super) watched: bool,
    /// What hears of the loss of their locks.
    pub(super) listening: AbortHandle,
}

impl Drop for Orphan {
    fn drop(&mut self) {
        self.listening.abort();
    }
}
