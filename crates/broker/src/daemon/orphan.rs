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
    pub(super) kept_for: KeptFor,
    pub(super) watch: Watch,
    /// What hears of the loss of their locks.
    pub(super) listening: AbortHandle,
}

/// For whom locks are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeptFor {
    /// For those who have inherited them.
    Inheritors,
    /// For the client itself, which has not come back from an earlier daemon. The file is its own.
    Sleeper,
}

/// How the end of those who have the file locked is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// A thread waits for it.
    Thread,
    /// There is no such thread yet: it is looked again.
    ToStart,
}

impl Drop for Orphan {
    fn drop(&mut self) {
        self.listening.abort();
    }
}
