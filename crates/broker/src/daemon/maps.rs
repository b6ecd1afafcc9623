//! What the maps tell of the clients of an earlier daemon.
//!
//! Their owners go on taking names while there is no daemon. So the first thing that a new one does is
//! to recall all of them: what they do not hold is free, and what they hold stays held until they say
//! otherwise. It knows by that who holds what, whether the holder comes back in time or not, and gives
//! nobody up who has all that it holds in its map: such a client is [kept](super::sleepers) as orphans
//! are until its process ends, and may come back to what it has. Only whether it waits for something,
//! and since when, it must say itself.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use navlock_wire::ClientKey;

use super::map::ClientMap;
use crate::client_files::{ClientFiles, Found};

/// The maps of those who were found, until their claims are settled.
#[derive(Default)]
pub(super) struct Maps(Mutex<HashMap<ClientKey, Known>>);

struct Known {
    map: Arc<ClientMap>,
    /// Whether others may have inherited locks of the client, which are not in it.
    has_inheritors: bool,
}

impl Maps {
    /// Those of the clients that were found, who own nothing any more.
    pub(super) fn of(files: &ClientFiles, found: &Found) -> Self {
        let inherited_from: HashSet<_> = found.inherited_from.iter().collect();
        let known = found.living.iter().filter_map(|key| {
            // Who cannot be mapped is waited for: it gives back by itself what it owns when it comes, and
            // when it finds that its file was removed.
            let map = ClientMap::of(files, *key).ok()??;
            map.recall_all();
            Some((*key, Known { map: Arc::new(map), has_inheritors: inherited_from.contains(key) }))
        });
        Self(Mutex::new(known.collect()))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<ClientKey, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all that this client holds is known.
    pub(super) fn tell_all(&self, key: ClientKey) -> bool {
        self.known().get(&key).is_some_and(|known| !known.has_inheritors && known.map.tells_all())
    }

    /// This client's map, if it was found.
    pub(super) fn of_client(&self, key: ClientKey) -> Option<Arc<ClientMap>> {
        Some(Arc::clone(&self.known().get(&key)?.map))
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
