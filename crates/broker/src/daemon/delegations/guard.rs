//! A lock in a slot, for as long as it is there.

use std::sync::Arc;

use navlock_core::FencingToken;
use navlock_delegation::{Look, Recalled};
use navlock_wire::{Moment, Slot};

use super::{super::map::ClientMap, Delegations, Grant, State};

/// What keeps a lock in its slot. Dropping it takes the slot back, whatever the client does: so it is
/// dropped before the lock.
#[derive(Debug)]
pub(in super::super) struct Delegation {
    delegations: Arc<Delegations>,
    key: usize,
    map: Arc<ClientMap>,
    slot: Slot,
    /// Whether the client goes on with it without the slot.
    left: bool,
}

/// A lock in a slot, as those who look see it.
pub(in super::super) struct SeenOwned {
    pub(in super::super) is_held: bool,
    /// How often it was taken without asking.
    pub(in super::super) taken: u64,
    /// Since when it is held, and the token, if its client says so.
    pub(in super::super) hold: Option<(Moment, FencingToken)>,
}

impl Delegations {
    /// Says in the slot that the lock is granted. `None` if it is not for use: then the client has it
    /// without one.
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

    /// The lock stands in the slot since an earlier daemon, if it does.
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
    /// Its number, among all that there are now.
    pub(in super::super) fn key(&self) -> usize {
        self.key
    }

    /// Whether the client holds it at this moment.
    pub(in super::super) fn is_held(&self) -> bool {
        self.map.look(self.slot).is_held()
    }

    /// The hold of this moment: since when, and its token, if its client says so. `None` if there is none.
    #[expect(clippy::option_option, reason = "whether it is held, and what is known of that")]
    pub(in super::super) fn hold(&self) -> Option<Option<(Moment, FencingToken)>> {
        let look = self.map.look(self.slot);
        look.is_held().then(|| self.map.shown(self.slot, look))
    }

    /// Has the client take it no more. Whether it holds it.
    pub(in super::super) fn recall(&self) -> Recalled {
        let mut state = self.delegations.state();
        let State { holds, buckets, tally, tokens } = &mut *state;
        let hold = &mut holds[self.key];
        let of_name = buckets.get_mut(&hold.bucket).and_then(|names| names.get_mut(&hold.name));
        let disowned = of_name.and_then(|known| hold.disown(&mut known.owned, tally, tokens));
        disowned.unwrap_or_else(|| self.map.recall(self.slot))
    }

    /// It was lost to a thief.
    pub(in super::super) fn steal(&self) {
        self.map.steal(self.slot);
    }

    /// When it was taken, as its client says, and its token; of the hold that was seen so.
    pub(in super::super) fn shown(&self, look: Look) -> Option<(Moment, FencingToken)> {
        self.map.shown(self.slot, look)
    }

    /// How often the client had taken it without asking, when it was seen so.
    pub(in super::super) fn taken(&self, look: Look) -> u64 {
        let first = self.delegations.state().holds[self.key].first;
        look.count().saturating_sub(first)
    }

    /// What those who look see of it, as of the last [look](Delegations::look_anew) at all of them.
    /// `None` if it is lost, which is told otherwise.
    pub(in super::super) fn seen(&self) -> Option<SeenOwned> {
        let state = self.delegations.state();
        let hold = &state.holds[self.key];
        let look = hold.seen.unwrap_or_else(|| self.map.look(self.slot));
        let taken = look.count().saturating_sub(hold.first);
        let is_held = look.is_held();
        let hold = is_held.then(|| self.map.shown(self.slot, look)).flatten();
        (!look.is_lost()).then_some(SeenOwned { is_held, taken, hold })
    }

    /// Whether those who look have last seen it held.
    pub(in super::super) fn was_seen_held(&self) -> bool {
        let seen = self.delegations.state().holds[self.key].seen;
        seen.is_none_or(Look::is_held)
    }

    /// The client goes on with the lock without the slot, which is its own to use again.
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
