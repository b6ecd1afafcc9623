//! What the maps tell of the clients of an earlier daemon.
//!
//! Their owners go on taking names while there is no daemon. So the first thing that a new one does is
//! to recall all of them: what they do not hold is free, and what they hold stays held until they say
//! otherwise. It knows by that who holds what, whether the holder comes back in time or not, and gives
//! nobody up who has all that it holds in its map: such a client is kept as [orphans](super::orphans)
//! are until its process ends, and may come back to what it has. Only whether it waits for something,
//! and since when, it must say itself.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use navlock_delegation::Description;
use navlock_engine::RequestId;
use navlock_wire::{ClientKey, Slot, ToDaemon};

use super::{
    claims::{Claimant, Claims},
    client::Client,
    house::{House, SharedClient, lock},
    map::ClientMap,
};
use crate::client_files::{ClientFiles, Found};

/// The maps of those who were found, until their claims are settled.
#[derive(Default)]
pub(super) struct Maps(Mutex<HashMap<ClientKey, Known>>);

struct Known {
    map: Arc<ClientMap>,
    /// Whether others may have inherited locks of the client, which are not in it.
    has_heirs: bool,
}

/// A client that has not come back and whose map tells what it holds.
pub(super) struct Sleeper {
    pub(super) key: ClientKey,
    pub(super) client: SharedClient,
    map: Arc<ClientMap>,
    /// Where it stands in the map.
    slots: Vec<(RequestId, Slot)>,
}

impl Maps {
    /// Those of the clients that were found, who own nothing any more.
    pub(super) fn of(files: &ClientFiles, found: &Found) -> Self {
        let heirs: HashSet<_> = found.bequeathers.iter().collect();
        let known = found.living.iter().filter_map(|key| {
            // Who cannot be mapped is waited for: it gives back by itself what it owns when it comes, and
            // when it finds that its file was removed.
            let map = ClientMap::of(files, *key).ok()??;
            map.recall_all();
            Some((*key, Known { map: Arc::new(map), has_heirs: heirs.contains(key) }))
        });
        Self(Mutex::new(known.collect()))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<ClientKey, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all that this client holds is known.
    pub(super) fn tell_all(&self, key: ClientKey) -> bool {
        self.known().get(&key).is_some_and(|known| !known.has_heirs && known.map.tells_all())
    }

    /// Has this client hold nothing any more: others may be granted it.
    pub(super) fn take_back(&self, key: ClientKey) {
        if let Some(known) = self.known().get(&key) {
            known.map.take_back_all();
        }
    }

    /// All is settled: from here on clients have slots of us.
    pub(super) fn forget(&self) {
        self.known().clear();
    }
}

/// The largest token that clients of an earlier daemon have had, the dead among them, as far as maps tell;
/// they take nothing by themselves from here on.
///
/// Who shares a name takes its tokens from the clock of the daemon that it knew, also when that is gone: they
/// may be above all that it has promised, and above this machine's clock if that was turned back since.
pub(super) fn last_token(files: &ClientFiles) -> u64 {
    // What cannot be looked at is waited for, and says nothing of its tokens.
    let clients = files.own_files().unwrap_or_default();
    let maps = clients.into_iter().filter_map(|client| ClientMap::of(files, client).ok()?);
    let last = maps.map(|map| {
        map.recall_all();
        map.last_token()
    });
    last.max().unwrap_or(0)
}

impl ClientMap {
    /// What its client claims by it, and where that stands.
    fn claims(&self, client: &mut Client) -> (Claims, Vec<(RequestId, Slot)>) {
        let (mut claims, mut slots) = (Claims::default(), Vec::new());
        for (slot, description, token, since) in self.held() {
            let Description { bucket, name, mode, agent, client_id, request } = description;
            let said = [
                ToDaemon::OpenAgent { agent, client_id, bucket },
                ToDaemon::ClaimLock { agent, request, name, mode, token, since },
            ];
            // What no client says is as good as not said.
            if said.into_iter().all(|message| claims.hear(client, message).is_ok()) {
                slots.push((request, slot));
            }
        }
        (claims, slots)
    }
}

impl House {
    /// Those who have not come back and are not given up, with what they claim.
    pub(super) fn sleepers(&self) -> Vec<(Sleeper, Claims)> {
        let keys = self.recovery().awaited();
        let known = self.maps().known();
        let sleepers = keys.into_iter().filter_map(|key| {
            let (map, client) = (Arc::clone(&known.get(&key)?.map), self.new_client());
            let (claims, slots) = map.claims(&mut lock(&client));
            Some((Sleeper { key, client, map, slots }, claims))
        });
        sleepers.collect()
    }

    /// Keeps them, with what they have of what they claimed, until they end or come back.
    pub(super) fn keep_sleepers(self: &Arc<Self>, sleepers: Vec<Sleeper>) {
        for Sleeper { key, client, map, slots } in sleepers {
            lock(&client).stand_in(&map, &slots);
            // If that cannot be told yet, it is looked again.
            let own = self.files().and_then(|files| files.own(key).ok().flatten());
            self.lodge_sleeper(key, client, own);
        }
    }
}

/// A sleeper's claims, to be settled with those of others.
pub(super) fn claimant(sleeper: &Sleeper, claims: Claims) -> (ClientKey, Claimant) {
    (sleeper.key, (Arc::clone(&sleeper.client), claims))
}
