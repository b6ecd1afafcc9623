//! A client while it is connected.

use std::{io, mem, sync::Arc};

use navlock_core::ClientId;
use navlock_core::look::ClientState;
use navlock_platform::clock::ahead;
use navlock_wire::{ClientKey, FromDaemon};

use super::{
    guests::{Guest, User},
    held_notes::HeldNotes,
    leases::Leases,
    map::ClientMap,
    process::Process,
    shared_client::{SharedClient, lock},
    state::Daemon,
};
use crate::LOGS;

/// A client with a connection. To drop this ends the client, unless its locks were inherited.
pub(super) struct ConnectedClient {
    daemon: Arc<Daemon>,
    pub(super) number: u64,
    pub(super) key: ClientKey,
    pub(super) client: SharedClient,
    /// How far its clock is ahead of ours, in nanoseconds, if that is known.
    pub(super) ahead: Option<i64>,
    /// Whose client it is, where several users share the daemon.
    user: Option<Arc<User>>,
    /// Whether there is no file of its own to remove.
    pub(super) is_given_up: bool,
}

impl Daemon {
    /// Enters a new client, or one that comes back to its inherited locks.
    pub(super) fn enter(
        self: &Arc<Self>,
        key: ClientKey,
        returning: bool,
        process: Option<Process>,
    ) -> ConnectedClient {
        let ahead = ahead(process.as_ref().map_or(0, Process::number));
        let mut clients = lock(&self.clients);
        let orphan = clients.take_orphan(key);
        let client = orphan.map_or_else(|| self.new_client(), |orphan| Arc::clone(&orphan.client));
        lock(&client).begin(process, key, self.files().clone());
        let number = clients.number();
        self.lookers.counts.session();
        clients.connected.insert(number, (key, Arc::clone(&client)));
        lock(&client).set_number(number, ClientState::Connected);
        if returning {
            self.recovery.begin(key, number);
        }
        let (daemon, user, is_given_up) = (Arc::clone(self), None, false);
        ConnectedClient { daemon, number, key, client, ahead, user, is_given_up }
    }
}

impl ConnectedClient {
    /// Notes whose client it is.
    ///
    /// # Errors
    ///
    /// If what the client holds cannot be noted.
    pub(super) fn admit(&mut self, guest: Guest) -> io::Result<()> {
        self.user = Some(Arc::clone(guest.user()));
        let has_notes = lock(&self.client).has_notes();
        let open = || HeldNotes::of(self.daemon.files().open_notes(self.key)?);
        let notes = if has_notes { None } else { Some(open()?) };
        lock(&self.client).belongs_to(guest, notes);
        Ok(())
    }

    /// Whose client it is, where several users share the daemon.
    pub(super) fn user(&self) -> Option<&Arc<User>> {
        self.user.as_ref()
    }

    /// Counts for the user what the client has, with so many claims, and with so many bytes besides names.
    pub(super) fn count(&self, claims: usize, bytes: usize) {
        if self.user.is_some() {
            lock(&self.client).count_for_user(claims, bytes);
        }
    }

    /// Maps the client's own file, into which the client has written its number. Returns the answer, if
    /// the map can be used.
    pub(super) fn map(&self, clients_nonce: u64) -> Option<FromDaemon> {
        let delegations = self.daemon.delegations().filter(|_| self.daemon.delegates)?;
        // The daemon may not have noticed the end of an earlier connection of the client, which may
        // have locks in the map.
        let clients = lock(&self.daemon.clients);
        let is_another = |(number, (other, _)): (&u64, &(ClientKey, _))| {
            *number != self.number && *other == self.key
        };
        let is_alone = !clients.connected.iter().any(is_another);
        drop(clients);
        // If this fails, the client has no map.
        let mut map = ClientMap::of(self.daemon.files(), self.key).ok()??;
        if !is_alone || clients_nonce == 0 || map.nonce() != clients_nonce {
            return None;
        }
        let nonce = random_nonce();
        map.confirm(nonce);
        map.shares = self.ahead.is_some();
        lock(&self.client).set_map(Arc::new(map));
        // The client adds moments of its own clock.
        let epoch = delegations.epoch().wrapping_add_signed(self.ahead.unwrap_or(0).wrapping_neg());
        Some(FromDaemon::Mapped { nonce, epoch })
    }

    /// Whether the client holds anything.
    pub(super) fn holds(&self) -> bool {
        lock(&self.client).requests.count().0 > 0
    }

    /// The notes of the client's leases.
    pub(super) fn leases(&self) -> Leases {
        Leases::new(Arc::clone(&self.daemon), self.key)
    }

    /// Makes sure that no later daemon believes the client. The daemon may have hung up on a client
    /// that lives, and then the client must not claim its former locks. This is done at most once,
    /// because the client may come back.
    pub(super) fn give_up(&mut self) {
        if !mem::replace(&mut self.is_given_up, true) {
            tracing::debug!(target: LOGS, "a client is given up: its locks are lost to it");
            // If the file cannot be removed, `sweep` removes it once the client is dead.
            let _ = self.daemon.files().give_up(self.key);
        }
    }
}

/// A random number for a map. It is not 0, which stands for a daemon that has not mapped the file.
fn random_nonce() -> u64 {
    let mut half = [0; 8];
    half.copy_from_slice(&ClientId::random().to_bytes()[..8]);
    u64::from_ne_bytes(half).max(1)
}

impl Drop for ConnectedClient {
    fn drop(&mut self) {
        if self.daemon.is_left() {
            return;
        }
        // From here on the client can take nothing more by its map. If the client was killed, the map
        // tells what the client held.
        lock(&self.client).requests.release_idle();
        let left = lock(&self.daemon.clients).connected.remove(&self.number);
        drop(left);
        let has_ended = lock(&self.client).has_ended();
        // The client may have come back on another connection.
        if self.daemon.recovery.withdraw(self.key, self.number) {
            self.daemon.maps.take_back(self.key);
        }
        // This comes before any lock of the client is free, unless the client is dead and cannot come back.
        if !has_ended {
            self.give_up();
        }
        if self.daemon.adopt(self.key, &self.client) {
            return self.give_up();
        }
        let leaves_file = !self.is_given_up;
        // The next holder may need a file or port that the process has not closed yet.
        let ending = lock(&self.client).ending();
        let client = Arc::clone(&self.client);
        if ending.is_empty() {
            return self.daemon.forget(self.number, self.key, &client, leaves_file);
        }
        let (daemon, number, key) = (Arc::clone(&self.daemon), self.number, self.key);
        lock(&self.daemon.clients).connected.insert(number, (key, Arc::clone(&client)));
        let forget = move || daemon.forget(number, key, &client, leaves_file);
        self.daemon.leaving.when_ended(ending, forget);
    }
}
