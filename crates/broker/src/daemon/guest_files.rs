//! The files of clients where several users share the daemon. No client can write into its place, so the daemon makes
//! them, and gives each client its own to hold.

use std::{
    collections::HashSet,
    fs::File,
    time::{Duration, Instant},
};

use navlock_wire::{ClientKey, FileTask};

use super::{guests::Guest, state::Daemon};
use crate::client_files::ClientFiles;

/// How long the claims of inherited locks of one client may be, in bytes. Their file takes room in memory.
const MOST_CLAIMS: usize = 32 << 10;

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

impl Daemon {
    /// Does this with a file of this client, for the process with this number. Returns the file, if one was made.
    ///
    /// # Errors
    ///
    /// Why it is not done, for people.
    pub(super) fn serve_file(
        &self,
        guest: Option<&Guest>,
        client: ClientKey,
        process: Option<u32>,
        task: &FileTask,
    ) -> Result<Option<[File; 2]>, String> {
        let (Some(guest), Some(files)) = (guest, self.files()) else {
            return Err("only the machine's broker makes files for its clients".to_owned());
        };
        if !guest.user().has(client) {
            return Err("it is a client of another user".to_owned());
        }
        let serve = || files.serve(client, process, task).map_err(|error| error.to_string());
        match task {
            FileTask::Inherit { claims } if claims.len() > MOST_CLAIMS => {
                Err(format!("what is to be inherited needs over {MOST_CLAIMS} bytes"))
            }
            FileTask::Revoke => serve(),
            _ => {
                let most = self.limits().connections_of_user;
                // Nobody forgets the client before its file is there.
                guest.files()?.with_file(client, most, files, || match task {
                    // There is one such file for each client.
                    FileTask::Reserve if !files.has_own(client) => {
                        Err("there is no such client".to_owned())
                    }
                    _ => serve(),
                })
            }
        }
    }
}
