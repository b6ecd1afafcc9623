//! The files of clients where several users share the daemon. No client can write into its place, so the daemon makes
//! them, and gives each client its own to hold.

use std::fs::File;

use navlock_wire::{ClientKey, FileTask};

use super::{guests::Guest, state::Daemon};

/// How long the claims of inherited locks of one client may be, in bytes. Their file takes room in memory.
const MOST_CLAIMS: usize = 32 << 10;

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
        let guest = guest.ok_or("only the machine's broker makes files for its clients")?;
        let files = self.files();
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
                let most = self.limits.connections_of_user;
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
