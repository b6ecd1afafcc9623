//! The locks that others inherit from a client.

use std::{collections::HashSet, io};

use navlock_engine::RequestId;
use navlock_platform::descriptor::Counted;

use super::{super::process::Process, ClientRecord};
use crate::{client_files::Inherited, lock_file::Identity};

impl ClientRecord {
    /// Opens the file of inherited locks and keeps it open. To be called when the client has said that
    /// others work under its locks, because these others may have inherited the locks.
    pub(super) fn keep_inherited_file(&mut self) {
        let Some((key, files)) = &self.files else { return };
        if let Some(file) = files.open_inherited(*key) {
            self.inherited_file = Counted::if_few(file);
        }
    }

    /// The locks that living processes have inherited from the client, for a client whose file of
    /// inherited locks somebody has removed.
    ///
    /// # Errors
    ///
    /// If this cannot be found out for the moment.
    pub(in super::super) fn inherited(&self) -> io::Result<Option<Inherited>> {
        let Some((key, files)) = &self.files else { return Ok(None) };
        if let Some(file) = &self.inherited_file {
            return files.inherited_by(*key, file.get());
        }
        if self.requests.len() == 0 {
            return Ok(None);
        }
        // The file was removed before the daemon could open it. But each process that works under the
        // locks has the file open as well. The client's own process, once it has ended, has nothing
        // open.
        let ended = self.process.as_ref().filter(|process| process.has_ended());
        let ended = ended.map(Process::number);
        let processes = self.agents.values().map(|open| open.info.pid);
        let processes: HashSet<u32> = processes.filter(|pid| Some(*pid) != ended).collect();
        let file = processes.iter().find_map(|pid| files.open_inherited_of(*key, *pid));
        file.map_or(Ok(None), |file| files.inherited_by(*key, &file))
    }

    /// Releases all locks except the `wanted` ones, and aborts all requests.
    pub(in super::super) fn keep_held(&mut self, wanted: impl Fn(RequestId) -> bool) {
        for id in self.requests.keep_held(wanted) {
            self.note_ended(id);
        }
    }

    /// Leaves the `wanted` locks to others, and ends all other locks, requests and agents.
    pub(in super::super) fn keep_inherited(&mut self, wanted: impl Fn(RequestId) -> bool) {
        self.keep_held(wanted);
        if self.has_ended() {
            // The client's own file may be removed from here on, and it does not tell who works
            // under these locks.
            self.requests.leave_slots();
        }
        let holders = self.holders();
        let ended = self.agents.keys().filter(|agent| !holders.contains(*agent)).copied();
        for agent in ended.collect::<Vec<_>>() {
            if let Some(open) = self.take_agent(agent) {
                open.locks.terminate();
                self.forget_agent(&open.of);
            }
        }
    }

    /// The commands that have inherited the client's locks. Each is known as a child of the client, or
    /// has this file open.
    pub(in super::super) fn inheritors(&self, file: Option<Identity>) -> Vec<Process> {
        let inheritors = self.agents.values().filter_map(|open| {
            // If only an earlier daemon knew the command as a child, the command is found by the
            // file.
            let found = || Process::with_open(open.info.pid, file?);
            open.command.clone().or_else(found)
        });
        inheritors.collect()
    }
}
