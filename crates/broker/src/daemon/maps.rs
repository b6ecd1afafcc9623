//! The maps of clients of an earlier daemon.
//!
//! Owners go on taking names while there is no daemon. So a new daemon first recalls all owners. Names
//! that they do not hold are then free, and locks that they hold stay held until the owners release
//! them. So the daemon knows the holders, even if they do not come back in time. The daemon gives up
//! no client whose map tells all its locks: such a client is [kept](super::sleepers) like an orphan
//! until its process ends, and may come back. Its waiting requests, and their times, are not in the
//! map. So the client itself must claim these.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
};

use navlock_wire::ClientKey;

use super::map::ClientMap;
use crate::{
    client_files::{ClientFiles, Found},
    sync::lock,
};

/// The maps of the clients that were found, until their claims are settled.
#[derive(Default)]
pub(super) struct Maps(Mutex<HashMap<ClientKey, Known>>);

struct Known {
    map: Arc<ClientMap>,
    /// Whether others may have inherited locks of the client, which are not in the map.
    has_inheritors: bool,
}

impl Maps {
    /// Opens the maps of the clients that were found, and recalls all their names.
    pub(super) fn of(files: &ClientFiles, found: &Found) -> Self {
        let inherited_from: HashSet<_> = found.inherited_from.iter().collect();
        let known = found.living.iter().filter_map(|key| {
            // The daemon waits for a client whose file cannot be mapped. Such a client gives back its
            // names by itself when it comes, or when it finds that its file was removed.
            let map = ClientMap::of(files, *key).ok()??;
            map.recall_all();
            Some((*key, Known { map: Arc::new(map), has_inheritors: inherited_from.contains(key) }))
        });
        Self(Mutex::new(known.collect()))
    }

    /// Whether all locks of this client are known from its map.
    pub(super) fn tell_all(&self, key: ClientKey) -> bool {
        lock(&self.0).get(&key).is_some_and(|known| !known.has_inheritors && known.map.tells_all())
    }

    /// This client's map, if it was found.
    pub(super) fn of_client(&self, key: ClientKey) -> Option<Arc<ClientMap>> {
        Some(Arc::clone(&lock(&self.0).get(&key)?.map))
    }

    /// Takes all locks in its map away from this client: others may be granted them.
    pub(super) fn take_back(&self, key: ClientKey) {
        if let Some(known) = lock(&self.0).get(&key) {
            known.map.take_back_all();
        }
    }

    /// Forgets the maps once all claims are settled: from here on, this daemon grants locks in the
    /// slots.
    pub(super) fn forget(&self) {
        lock(&self.0).clear();
    }
}

/// The largest token that clients of an earlier daemon have had, as far as their maps tell. Dead clients
/// are included. Recalls all names, so that no more tokens are taken from here on.
///
/// Owners of a shared name take tokens from the clock of the daemon that they knew, even after that daemon
/// has gone. So these tokens may be above the bound of that daemon. They may also be above this machine's
/// clock, if the clock was turned back since.
pub(super) fn last_token(files: &ClientFiles) -> u64 {
    // The daemon waits for a client whose map cannot be read. The tokens of that client are not
    // known.
    let clients = files.own_files().unwrap_or_default();
    let maps = clients.into_iter().filter_map(|client| ClientMap::of(files, client).ok()?);
    let last = maps.map(|map| {
        map.recall_all();
        map.last_token()
    });
    last.max().unwrap_or(0)
}
