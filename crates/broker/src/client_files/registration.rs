//! A client's own file, as the client has it.

use std::{fs::File, path::PathBuf};

use navlock_platform::{file::has_name, file_lock};

use crate::lock_file::{self, remove};

/// A client's own file. To drop this removes the file.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(super) path: PathBuf,
    locked: File,
    /// Whether the broker has made the file, which only the broker can see at its path.
    is_served: bool,
}

impl Registration {
    /// The file that this process has made or, if `is_served` is set, the broker.
    pub(super) fn new(path: PathBuf, locked: File, is_served: bool) -> Self {
        Self { path, locked, is_served }
    }

    /// The file, open for reading and writing.
    pub(crate) fn file(&self) -> &File {
        &self.locked
    }

    /// Whether the file is still at its path, where a daemon looks for it.
    pub(crate) fn stands(&self) -> bool {
        if self.is_served {
            return has_name(&self.locked);
        }
        lock_file::is_at(&self.locked, &self.path)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if !self.is_served {
            remove(&self.path, &self.locked);
        }
        // The file stays open as long as it is mapped, so it must be unlocked here.
        let _ = file_lock::unlock(&self.locked);
    }
}
