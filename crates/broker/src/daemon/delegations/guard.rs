//! The guard that keeps a lock in its slot.

use std::sync::Arc;

use navlock_core::FencingToken;
use navlock_delegation::{Look, Recalled};
use navlock_wire::{Moment, Slot};

use super::{super::map::ClientMap, Delegations, Grant, State};
use crate::sync::lock;

/// Keeps a lock in its slot. To drop the guard takes the slot back from the client, whatever the
/// client does. So the guard is dropped before the lock itself.
#[derive(Debug)]
pub(in super::super) struct Delegation {
    delegations: Arc<Delegations>,
    key: usize,
    map: Arc<ClientMap>,
    slot: Slot,
    /// Whether the client goes on with the lock without the slot.
    left: bool,
}

/// A lock in a slot, as lookers see it.
pub(in super::super) struct SeenOwned {
    pub(in super::super) is_held: bool,
    /// How often the client has taken the lock without asking.
    pub(in super::super) taken: u64,
    /// Since when the lock is held, and its token, if the client tells these.
    pub(in super::super) hold: Option<(Moment, FencingToken)>,
}

impl Delegations {
    /// Grants the lock in the slot. `None` if the slot cannot be used: then the client gets the lock
    /// by message.
    pub(in super::super) fn grant(self: &Arc<Self>, grant: Grant<'_>) -> Option<Delegation> {
        if !grant.map.occupy(grant.slot) {
            return None;
        }
        let Some(first) = grant.map.grant(grant.slot, grant.token, grant.owned) else {
            grant.map.vacate(grant.slot);
            return None;
        };
        Some(self.guard(grant, first))
    }

    /// Takes over a lock that an earlier daemon has granted in the slot. `None` if the lock is not
    /// held there.
    pub(in super::super) fn keep(self: &Arc<Self>, grant: Grant<'_>) -> Option<Delegation> {
        let look = grant.map.look(grant.slot);
        let stands = look.is_held() && grant.map.occupy(grant.slot);
        stands.then(|| self.guard(grant, look.count()))
    }

    fn guard(self: &Arc<Self>, grant: Grant<'_>, first: u64) -> Delegation {
        let (map, slot) = (Arc::clone(grant.map), grant.slot);
        let (delegations, key) = (Arc::clone(self), self.insert(grant, first));
        Delegation { delegations, key, map, slot, left: false }
    }
}

impl Delegation {
    /// The number of the lock among all locks that are in slots now.
    pub(in super::super) fn key(&self) -> usize {
        self.key
    }

    /// Whether the client holds the lock at this moment.
    pub(in super::super) fn is_held(&self) -> bool {
        self.map.look(self.slot).is_held()
    }

    /// The hold of this moment: since when, and its token, if the client tells these. `None` if the lock
    /// is not held.
    #[expect(clippy::option_option, reason = "whether it is held, and what is known of that")]
    pub(in super::super) fn hold(&self) -> Option<Option<(Moment, FencingToken)>> {
        let look = self.map.look(self.slot);
        look.is_held().then(|| self.map.shown(self.slot, look))
    }

    /// Recalls the lock: the client cannot take it any more. Returns whether the client holds it.
    pub(in super::super) fn recall(&self) -> Recalled {
        let mut state = lock(&self.delegations.state);
        let State { holds, buckets, tally, tokens } = &mut *state;
        let hold = &mut holds[self.key];
        let of_name = buckets.get_mut(&hold.bucket).and_then(|names| names.get_mut(&hold.name));
        let disowned = of_name.and_then(|known| hold.disown(&mut known.owned, tally, tokens));
        disowned.unwrap_or_else(|| self.map.recall(self.slot))
    }

    /// Tells the client, in the slot, that the lock was stolen.
    pub(in super::super) fn steal(&self) {
        self.map.steal(self.slot);
    }

    /// When the lock was taken and its token, as the client tells them, for the hold of this word.
    pub(in super::super) fn shown(&self, look: Look) -> Option<(Moment, FencingToken)> {
        self.map.shown(self.slot, look)
    }

    /// How often the client had taken the lock without asking, as of this word.
    pub(in super::super) fn taken(&self, look: Look) -> u64 {
        let first = lock(&self.delegations.state).holds[self.key].first;
        look.count().saturating_sub(first)
    }

    /// What lookers see of the lock, as of the last [look](Delegations::look_anew) at all words.
    /// `None` if it is lost, which lookers are told in another way.
    pub(in super::super) fn seen(&self) -> Option<SeenOwned> {
        let state = lock(&self.delegations.state);
        let hold = &state.holds[self.key];
        let look = hold.seen.unwrap_or_else(|| self.map.look(self.slot));
        let taken = look.count().saturating_sub(hold.first);
        let is_held = look.is_held();
        let hold = is_held.then(|| self.map.shown(self.slot, look)).flatten();
        (!look.is_lost()).then_some(SeenOwned { is_held, taken, hold })
    }

    /// Whether the lock was held when lookers last saw it.
    pub(in super::super) fn was_seen_held(&self) -> bool {
        let seen = lock(&self.delegations.state).holds[self.key].seen;
        seen.is_none_or(Look::is_held)
    }

    /// Lets the client go on with the lock without the slot. The client may use the slot for
    /// another lock.
    pub(in super::super) fn leave(mut self) {
        self.left = true;
    }
}

impl Drop for Delegation {
    fn drop(&mut self) {
        if !self.left {
            self.map.take_back(self.slot);
        }
        self.map.vacate(self.slot);
        self.delegations.remove(self.key);
    }
}
