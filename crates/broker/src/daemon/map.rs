//! A client's map, as the daemon sees it. The map may contain anything.
//!
//! A slot that does not exist, or makes no sense, counts as not held by the client.

use std::{collections::HashSet, fmt, io, sync::Mutex};

use navlock_core::FencingToken;
use navlock_delegation::{BrokerMap, Description, Look, Recalled};
use navlock_wire::{ClientKey, Moment, Slot};

use crate::{client_files::ClientFiles, clock, sync::lock};

/// The map in a client's own file.
pub(super) struct ClientMap {
    map: BrokerMap,
    /// The number that the owner of the map has written into it.
    nonce: u64,
    client: ClientKey,
    files: ClientFiles,
    /// Whether the client can own names that others share: these take their tokens from the clock, so the client's
    /// must be known.
    pub(super) shares: bool,
    /// The slots in which the daemon has put locks. There is at most one lock in each slot,
    /// whatever the client says. So a client has no more such locks than slots.
    occupied: Mutex<HashSet<Slot>>,
}

impl ClientMap {
    /// The map of this client. `None` if its file is no map.
    ///
    /// # Errors
    ///
    /// If the file cannot be mapped for the moment.
    pub(super) fn of(files: &ClientFiles, client: ClientKey) -> io::Result<Option<Self>> {
        let file = files.open_own(client)?;
        Ok(BrokerMap::open(&file)?.map(|map| Self {
            nonce: map.nonce(),
            map,
            client,
            files: files.clone(),
            shares: true,
            occupied: Mutex::default(),
        }))
    }

    /// Takes the slot for a lock. Returns whether it was vacant.
    pub(super) fn occupy(&self, slot: Slot) -> bool {
        lock(&self.occupied).insert(slot)
    }

    /// Notes that no lock stands in the slot any more.
    pub(super) fn vacate(&self, slot: Slot) {
        lock(&self.occupied).remove(&slot);
    }

    /// The number that the owner of the map has written into it; 0 if there is none.
    pub(super) fn nonce(&self) -> u64 {
        self.nonce
    }

    /// Writes the daemon's number, which is not 0.
    pub(super) fn confirm(&self, nonce: u64) {
        self.map.confirm(nonce);
    }

    /// Whether the map tells all locks of the client. A map that no daemon has confirmed does not.
    pub(super) fn tells_all(&self) -> bool {
        self.map.is_confirmed() && self.map.unmapped() == 0 && !self.map.is_broken()
    }

    /// Calls `act` with a slot, if the slot exists.
    ///
    /// If somebody truncates the file, the daemon's mapping becomes useless as a whole, while the
    /// client still sees the part that is left. So this part is mapped anew here. Otherwise the
    /// client could go on with locks that count as free for the daemon.
    fn at<T>(&self, slot: Slot, act: impl Fn(&navlock_delegation::Slot) -> T) -> Option<T> {
        let done = self.map.slot(slot).map(&act);
        if !self.map.is_broken() {
            return done;
        }
        let rest = Self::of(&self.files, self.client).ok()??;
        let done = rest.map.slot(slot).filter(|_| rest.nonce == self.nonce).map(act);
        done.filter(|_| !rest.map.is_broken())
    }

    /// The word of a slot; a free word if the slot does not exist.
    pub(super) fn look(&self, slot: Slot) -> Look {
        self.at(slot, |slot| slot.word().look()).unwrap_or(Look::from_bits(0))
    }

    /// Grants a lock with this token in the slot. If `owned` is set, the client owns the name from
    /// now on. Returns the count of the word; `None` if the slot is not free.
    pub(super) fn grant(&self, slot: Slot, token: FencingToken, owned: bool) -> Option<u64> {
        self.at(slot, |slot| {
            // The base and the time are written before the word, because the word tells the client
            // that they are valid.
            let count = slot.word().look().count().wrapping_add(1);
            slot.set_base(token.get().wrapping_sub(count));
            slot.set_since(clock::now());
            slot.word().grant(!owned)
        })?
    }

    pub(super) fn recall(&self, slot: Slot) -> Recalled {
        self.at(slot, |slot| slot.word().recall()).unwrap_or(Recalled::Free)
    }

    pub(super) fn steal(&self, slot: Slot) {
        let _ = self.at(slot, |slot| slot.word().steal());
    }

    /// Takes the lock of a slot away: the client can neither hold nor take it any more.
    pub(super) fn take_back(&self, slot: Slot) {
        if self.recall(slot) == Recalled::Held {
            let _ = self.at(slot, |slot| slot.word().revoke());
        }
    }

    /// When the hold of this word began, and its token.
    pub(super) fn shown(&self, slot: Slot, look: Look) -> Option<(Moment, FencingToken)> {
        self.at(slot, |slot| (slot.since(), FencingToken::new(slot.token(look.count()))))
    }

    /// Recalls all slots: the client can take nothing without asking.
    pub(super) fn recall_all(&self) {
        self.each(|slot| {
            // A free word is left as it is.
            if !slot.word().look().is_free() {
                let _ = slot.word().recall();
            }
        });
    }

    /// The largest token of any slot's last hold.
    pub(super) fn last_token(&self) -> u64 {
        let token = |slot: &navlock_delegation::Slot| slot.token(slot.word().look().count());
        self.slots().into_iter().filter_map(|slot| self.at(slot, token)).max().unwrap_or(0)
    }

    /// Takes all slots away: the client holds nothing any more.
    pub(super) fn take_back_all(&self) {
        self.each(|slot| {
            if slot.word().recall() == Recalled::Held {
                let _ = slot.word().revoke();
            }
        });
    }

    fn each(&self, act: impl Fn(&navlock_delegation::Slot)) {
        for slot in self.slots() {
            let _ = self.at(slot, &act);
        }
    }

    /// The indices of all slots. They are collected first, because slots may vanish while the
    /// caller goes through them.
    fn slots(&self) -> Vec<Slot> {
        self.map.slots().map(|(slot, _)| slot).collect()
    }

    /// The locks that the client holds in the map, with their tokens, and since when the client
    /// holds them.
    pub(super) fn held(&self) -> Vec<(Slot, Description, FencingToken, Moment)> {
        let held = self.slots().into_iter().filter_map(|index| {
            let (look, description) = self.at(index, |slot| {
                let look = slot.word().look();
                (look, look.is_held().then(|| slot.description()).flatten())
            })?;
            let (since, token) = self.shown(index, look)?;
            Some((index, description?, token, since))
        });
        held.collect()
    }
}

impl fmt::Debug for ClientMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientMap").finish_non_exhaustive()
    }
}
