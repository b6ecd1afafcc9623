//! A client that is connected, until it is not.

use std::{
    mem,
    sync::{Arc, atomic::Ordering::SeqCst},
};

use navlock_core::ClientId;
use navlock_wire::{ClientKey, ClientState, FromDaemon};

use super::{
    super::{
        leases::Leases,
        map::ClientMap,
        process::Process,
        shared_client::{SharedClient, lock},
    },
    House,
};
use crate::LOGS;

/// A client's stay. Dropping it is the client's end, unless its locks were inherited.
pub(in super::super) struct Stay {
    house: Arc<House>,
    pub(in super::super) room: u64,
    pub(in super::super) key: Option<ClientKey>,
    pub(in super::super) client: SharedClient,
    is_given_up: bool,
}

impl House {
    /// A new client, or one that comes back to what it has left to others.
    pub(in super::super) fn enter(
        self: &Arc<Self>,
        key: Option<ClientKey>,
        returning: bool,
        process: Option<Process>,
    ) -> Stay {
        let mut rooms = self.rooms();
        let orphan = key.and_then(|key| rooms.take_orphan(key));
        let client = orphan.map_or_else(|| self.new_client(), |orphan| Arc::clone(&orphan.client));
        lock(&client).begin(process, key.zip(self.files.clone()));
        let room = rooms.number();
        self.lookers.counts().session();
        rooms.clients.insert(room, (key, Arc::clone(&client)));
        lock(&client).set_room(room, ClientState::Connected);
        if let Some(key) = key.filter(|_| returning) {
            self.recovery.begin(key, room);
        }
        Stay { house: Arc::clone(self), room, key, client, is_given_up: false }
    }
}

impl Stay {
    /// Maps the client's own file, in which it says to have written this number. What is said to that, if
    /// it is of use.
    pub(in super::super) fn map(&self, nonce: u64) -> Option<FromDaemon> {
        let delegations = self.house.delegations().filter(|_| self.house.delegates)?;
        let key = self.key?;
        // A connection of its that has ended, which we do not know yet, may have locks in it.
        let rooms = self.house.rooms();
        let is_another = |(room, (other, _)): (&u64, &(Option<ClientKey>, _))| {
            *room != self.room && *other == Some(key)
        };
        let is_alone = !rooms.clients.iter().any(is_another);
        drop(rooms);
        // Without it, all is as if there were none.
        let map = ClientMap::of(self.house.files()?, key).ok()??;
        if !is_alone || nonce == 0 || map.nonce() != nonce {
            return None;
        }
        let [ours @ .., _, _, _, _, _, _, _, _] = ClientId::random().to_bytes();
        let ours = u64::from_ne_bytes(ours).max(1);
        map.confirm(ours);
        lock(&self.client).set_map(Arc::new(map));
        Some(FromDaemon::Mapped { nonce: ours, epoch: delegations.epoch() })
    }

    /// Whether anything is held by it.
    pub(in super::super) fn holds(&self) -> bool {
        lock(&self.client).count().0 > 0
    }

    /// Where its leases are noted.
    pub(in super::super) fn leases(&self) -> Option<Leases> {
        Some(Leases::new(Arc::clone(&self.house), self.key?, self.house.files()?.clone()))
    }

    /// Has no later daemon believe the client: if it lives, because it was hung up on, it must not
    /// claim what was its. Once, because it may come back.
    pub(in super::super) fn give_up(&mut self) {
        let is_given_up = mem::replace(&mut self.is_given_up, true);
        if let (false, Some(key), Some(files)) = (is_given_up, self.key, self.house.files()) {
            tracing::debug!(target: LOGS, "a client is given up: what it held is lost to it");
            // If it cannot be removed, it is dead and `sweep` does.
            let _ = files.give_up(key);
        }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        if self.house.is_left.load(SeqCst) {
            return;
        }
        // From here on it holds what it holds, as its map says if it was killed in between.
        lock(&self.client).release_idle();
        let left = self.house.rooms().clients.remove(&self.room);
        drop(left);
        let has_ended = lock(&self.client).has_ended();
        if let Some(key) = self.key {
            // It may have come back on another connection.
            if self.house.recovery.withdraw(key, self.room) {
                self.house.maps.take_back(key);
            }
            // Before anything of it is free, unless it cannot come back.
            if !has_ended {
                self.give_up();
            }
            if self.house.adopt(key, &self.client) {
                return self.give_up();
            }
        }
        let leaves_file = !self.is_given_up;
        // Others may need what it has not closed yet.
        let ending = lock(&self.client).ending();
        let client = Arc::clone(&self.client);
        if ending.is_empty() {
            return self.house.forget(self.room, self.key, &client, leaves_file);
        }
        let (house, room, key) = (Arc::clone(&self.house), self.room, self.key);
        self.house.rooms().clients.insert(room, (key, Arc::clone(&client)));
        tokio::spawn(async move {
            for process in ending {
                process.until_ended().await;
            }
            house.forget(room, key, &client, leaves_file);
        });
    }
}
