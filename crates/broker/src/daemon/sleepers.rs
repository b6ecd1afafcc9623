//! Sleepers: clients of an earlier daemon that live and have not come back, and whose [maps](super::maps)
//! tell which locks they hold. Sleepers keep these locks until they end or come back.

use std::sync::Arc;

use navlock_delegation::Description;
use navlock_engine::RequestId;
use navlock_wire::{ClientKey, Slot, ToDaemon};

use super::{
    claims::Claims,
    client_record::ClientRecord,
    map::ClientMap,
    orphan::KeptFor,
    shared_client::{SharedClient, lock},
    state::Daemon,
};

/// A client that has not come back, and whose map tells which locks it holds.
pub(super) struct Sleeper {
    pub(super) key: ClientKey,
    pub(super) client: SharedClient,
    map: Arc<ClientMap>,
    /// The slots of the client's locks in the map.
    slots: Vec<(RequestId, Slot)>,
}

impl ClientMap {
    /// The claims of the client, as the map makes them, and the slots of these locks.
    fn claims(&self, client: &mut ClientRecord) -> (Claims, Vec<(RequestId, Slot)>) {
        let (mut claims, mut slots) = (Claims::default(), Vec::new());
        for (slot, description, token, since) in self.held() {
            let Description { bucket, name, mode, agent, client_id, request } = description;
            let said = [
                ToDaemon::OpenAgent { agent, client_id, bucket },
                ToDaemon::ClaimLock { agent, request, name, mode, token, since },
            ];
            // Parts of the map that make no sense count as no claims.
            if said.into_iter().all(|message| claims.handle_message(client, message).is_ok()) {
                slots.push((request, slot));
            }
        }
        (claims, slots)
    }
}

impl Daemon {
    /// The clients that have not come back and are not given up, with their claims.
    pub(super) fn sleepers(&self) -> Vec<(Sleeper, Claims)> {
        let keys = self.recovery.awaited();
        let sleepers = keys.into_iter().filter_map(|key| {
            let (map, client) = (self.maps.of_client(key)?, self.new_client());
            let (claims, slots) = map.claims(&mut lock(&client));
            Some((Sleeper { key, client, map, slots }, claims))
        });
        sleepers.collect()
    }

    /// Keeps these sleepers, with the claimed locks that were granted to them, until they end or come back.
    pub(super) fn keep_sleepers(self: &Arc<Self>, sleepers: Vec<Sleeper>) {
        for Sleeper { key, client, map, slots } in sleepers {
            let own = self.files().own(key);
            if matches!(own, Ok(None)) {
                lock(&client).end();
                continue;
            }
            lock(&client).stand_in(&map, &slots);
            // If the client's own file cannot be opened yet, this is tried again later.
            self.keep(key, client, own.ok().flatten(), KeptFor::Sleeper);
        }
    }
}
