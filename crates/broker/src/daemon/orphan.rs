//! One client without a connection whose locks are kept.

use futures_util::future::AbortHandle;
use navlock_wire::ClientKey;

use super::{process::Process, shared_client::SharedClient};
use crate::{client_files::ClientFiles, lock_file::Identity};

/// A client without a connection whose locks are kept: for the processes that have inherited them, or
/// for itself.
pub(super) struct Orphan {
    pub(super) key: ClientKey,
    pub(super) client: SharedClient,
    /// The file that these processes have locked. `None` if the file could not be read yet.
    pub(super) file: Option<Identity>,
    pub(super) kept_for: KeptFor,
    pub(super) watch: Watch,
    /// The processes that have inherited the locks, as far as they are known.
    pub(super) inheritors: Vec<Process>,
    /// The task that waits for losses of the orphan's locks.
    pub(super) listening: AbortHandle,
}

/// For whom locks are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeptFor {
    /// For the processes that have inherited them.
    Inheritors,
    /// For the client itself, which was connected to an earlier daemon and has not come back.
    /// `file` is then the client's own file.
    Sleeper,
}

/// How the end of the processes that have the file locked is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// A thread waits for the end.
    Thread,
    /// There is no such thread yet. It has to be started.
    ToStart,
}

impl Orphan {
    /// Whether those for whom the locks are kept have ended, even if that was not noticed yet.
    pub(super) fn has_ended(&self, files: &ClientFiles) -> bool {
        let inherited = self.kept_for == KeptFor::Inheritors;
        self.file.is_some_and(|file| files.have_ended(self.key, file, inherited))
            && !self.inheritors.iter().any(Process::is_ending)
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        self.listening.abort();
    }
}
