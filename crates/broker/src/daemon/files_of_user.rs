//! Which clients of one user have files, where several users share the daemon: no user may have too many.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use navlock_wire::ClientKey;

use crate::client_files::ClientFiles;

/// How often it is looked which clients of a user have no files any more.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// The clients of one user that have files.
#[derive(Debug, Default)]
pub(super) struct FilesOfUser {
    clients: HashSet<ClientKey>,
    /// When it was last looked which of them have none any more.
    looked: Option<Instant>,
}

impl FilesOfUser {
    /// Makes a file of this client, if there may be one. Clients whose processes have ended, and those that have
    /// inherited their locks as well, make room for others.
    ///
    /// # Errors
    ///
    /// Why there may be none, and what `make` returns.
    pub(super) fn with_file<T>(
        &mut self,
        client: ClientKey,
        most: usize,
        files: &ClientFiles,
        make: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        let is_known = self.clients.contains(&client);
        let is_time = self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_PAUSE);
        if !is_known && self.clients.len() >= most && is_time {
            self.forget_removed(files);
            self.looked = Some(Instant::now());
        }
        if !is_known && self.clients.len() >= most {
            return Err("this user has as many clients with files as one user may have".to_owned());
        }
        self.clients.insert(client);
        make()
    }

    /// Removes the files of clients that have ended.
    pub(super) fn forget_removed(&mut self, files: &ClientFiles) {
        self.clients.retain(|client| files.has_locked(*client));
    }

    /// Whether there are any.
    pub(super) fn are_left(&self) -> bool {
        !self.clients.is_empty()
    }
}
