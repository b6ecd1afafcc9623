//! Locks that stand in their clients' maps, and the names that clients own by that.
//!
//! A lock that is granted in a slot of its client's [map](super::map) is held by the engine as any
//! other. If nobody waits for its name, its client *owns* the name from then on: it releases the lock
//! and takes it again in the map, without a word to us, and the engine, which is not asked, sees it
//! held all the time. So whoever looks at a name, or asks for it, [settles](Delegations::settle) it first: its
//! owners are recalled, and what none of them holds at that moment is released.
//!
//! # Invariants
//!
//! - Before the engine sees a request, no owner can take its name any more whom the request would have
//!   to wait for. So nobody is in a queue whom an owner could overtake.
//! - Before the engine releases what is in a slot, the client can neither hold nor take it any more:
//!   [`Delegation`].

mod guard;
mod holder;
mod looks;
mod observed;

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use foldhash::quality::RandomState;
use navlock_core::{ClientId, FencingToken, Mode, ResourceName, host::RequestKind};
use navlock_delegation::{Look, Recalled};
use navlock_engine::RequestId;
use navlock_wire::Slot;
use slab::Slab;

use self::looks::Seen;

pub(super) use self::{
    guard::Delegation,
    holder::{Freed, Holder, release},
    looks::Looks,
};
use super::{entry_key::EntryKey, map::ClientMap};
use crate::clock;

/// With room for more than so many, it is given back once there is none in use.
const KEEP: usize = 1024;

/// All locks that stand in slots.
///
/// Who has locked a client may lock this; who has locked this locks nobody.
#[derive(Debug)]
pub(super) struct Delegations {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    holds: Slab<Hold>,
    /// By bucket and name. No name is without a hold.
    ///
    /// The names are of many clients: none may have them collide to slow down the others.
    buckets: HashMap<Arc<str>, HashMap<ResourceName, OfName, RandomState>, RandomState>,
    tally: Tally,
    tokens: Bound,
}

/// What is known of the tokens of owners, who count by themselves.
#[derive(Debug, Default)]
struct Bound {
    /// Added to a moment, the token that no owner has had before it.
    epoch: u64,
    /// Larger than all tokens of those who have ceased to own a name, of whatever bucket.
    least: u64,
}

/// What stands in slots of one name.
#[derive(Debug, Default)]
struct OfName {
    holds: Vec<usize>,
    /// How many of them are owned: not recalled yet.
    owned: usize,
    /// How many of them are exclusive, owned or not.
    alone: usize,
}

/// A lock in a slot.
#[derive(Debug)]
struct Hold {
    client: Weak<dyn Holder>,
    request: RequestId,
    map: Arc<ClientMap>,
    slot: Slot,
    bucket: Arc<str>,
    name: ResourceName,
    mode: Mode,
    client_id: ClientId,
    /// Its place among those of its name.
    at: usize,
    /// Whether its client can take it again: it was not recalled yet.
    owned: bool,
    /// What the word counted when it was granted, and the token.
    first: u64,
    token: FencingToken,
    /// The word as those who look have last seen it.
    seen: Option<Look>,
}

/// What is granted in a slot, and where.
pub(super) struct Grant<'a> {
    pub(super) client: Weak<dyn Holder>,
    pub(super) map: &'a Arc<ClientMap>,
    pub(super) slot: Slot,
    pub(super) request: RequestId,
    pub(super) bucket: &'a Arc<str>,
    pub(super) name: &'a ResourceName,
    pub(super) mode: Mode,
    pub(super) client_id: ClientId,
    pub(super) token: FencingToken,
    /// Whether the name is the client's from now on.
    pub(super) owned: bool,
}

/// How owning names has gone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// How many names are owned now; one that several share is counted for each.
    pub(super) owned: u64,
    /// How often owners have taken a name without asking.
    pub(super) taken: u64,
    /// How often an owner was recalled.
    pub(super) recalled: u64,
}

impl Delegations {
    /// With this token or a larger one for what is granted at the moment zero.
    pub(super) fn new(epoch: u64) -> Arc<Self> {
        let mut tokens = Bound { epoch, least: 0 };
        tokens.least = tokens.now();
        Arc::new(Self { state: Mutex::new(State { tokens, ..State::default() }) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whole at any time: nothing in there can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Added to a moment, the smallest fencing token of who shares a name then.
    pub(super) fn epoch(&self) -> u64 {
        self.state().tokens.epoch
    }

    /// The smallest token that may be granted now of this name: larger than all that its owners have
    /// had.
    ///
    /// An owner counts on from the token of its grant, by one for each time that it takes the name,
    /// and nobody takes a lock in a nanosecond; owners that share one also keep up with this clock. So
    /// it is the one after the last that an owner had when it ceased to be one, and nothing above the
    /// clock is believed. A name that only one has had has tokens in a row, by which it knows that.
    pub(super) fn least_token(&self, bucket: &str, name: &ResourceName) -> FencingToken {
        let state = self.state();
        let of_name = state.buckets.get(bucket).and_then(|names| names.get(name));
        let is_owned = of_name.is_some_and(|of_name| of_name.owned > 0);
        FencingToken::new(if is_owned { state.tokens.now() } else { state.tokens.least })
    }

    /// Has nobody own a name whom this request would have to wait for; what they do not hold is
    /// released. To be called before the engine sees the request, with no client locked.
    pub(super) fn settle(&self, bucket: &str, name: &ResourceName, kind: RequestKind) {
        release(self.recall(bucket, name, kind));
    }

    /// Recalls whoever owns a name and would be in the way of this request. What of it is free.
    fn recall(&self, bucket: &str, name: &ResourceName, kind: RequestKind) -> Vec<Freed> {
        let mut state = self.state();
        let State { holds, buckets, tally, tokens } = &mut *state;
        let of_name = buckets.get_mut(bucket).and_then(|names| names.get_mut(name));
        // FAST: once they are recalled, a long queue does not have them all looked at again; nor do
        // many who share it.
        let is_in_the_way = |of_name: &&mut OfName| match kind.mode() {
            Mode::Exclusive => of_name.owned > 0,
            Mode::Shared => of_name.alone > 0,
        };
        let Some(of_name) = of_name.filter(is_in_the_way) else { return Vec::new() };
        let OfName { holds: keys, owned, .. } = of_name;
        let freed = keys.iter().filter_map(|key| {
            let hold = &mut holds[*key];
            hold.settle(owned, tally, tokens)
        });
        freed.collect()
    }

    /// The agents that have the name in a slot.
    pub(super) fn agents_of(&self, bucket: &str, name: &ResourceName) -> Vec<ClientId> {
        let state = self.state();
        let of_name = state.buckets.get(bucket).and_then(|names| names.get(name));
        let keys = of_name.into_iter().flat_map(|of_name| &of_name.holds);
        keys.map(|key| state.holds[*key].client_id).collect()
    }

    /// The name was stolen from all who have it in a slot.
    pub(super) fn steal(&self, bucket: &str, name: &ResourceName) {
        let state = self.state();
        let of_name = state.buckets.get(bucket).and_then(|names| names.get(name));
        for hold in
            of_name.into_iter().flat_map(|of_name| &of_name.holds).map(|key| &state.holds[*key])
        {
            hold.map.steal(hold.slot);
        }
    }

    /// Notes a lock that stands in a slot, by the number that this returns.
    fn insert(&self, grant: Grant<'_>, first: u64) -> usize {
        let Grant { client, map, slot, request, bucket, name, mode, client_id, token, owned } =
            grant;
        let mut state = self.state();
        let State { holds, buckets, tally, .. } = &mut *state;
        let names = buckets.entry(Arc::clone(bucket)).or_default();
        let of_name = names.entry(name.clone()).or_default();
        let key = holds.insert(Hold {
            client,
            request,
            map: Arc::clone(map),
            slot,
            bucket: Arc::clone(bucket),
            name: name.clone(),
            mode,
            client_id,
            at: of_name.holds.len(),
            owned,
            first,
            token,
            seen: None,
        });
        of_name.holds.push(key);
        of_name.owned += usize::from(owned);
        of_name.alone += usize::from(mode == Mode::Exclusive);
        tally.owned += u64::from(owned);
        key
    }

    fn remove(&self, key: usize) {
        let mut state = self.state();
        let State { holds, buckets, tally, tokens } = &mut *state;
        let hold = holds.remove(key);
        if hold.owned {
            tokens.raise_above(&hold);
        }
        tally.taken = tally.taken.saturating_add(hold.taken());
        let Some(names) = buckets.get_mut(&hold.bucket) else { return };
        let Some(of_name) = names.get_mut(&hold.name) else { return };
        of_name.owned -= usize::from(hold.owned);
        of_name.alone -= usize::from(hold.mode == Mode::Exclusive);
        tally.owned -= u64::from(hold.owned);
        of_name.holds.swap_remove(hold.at);
        if let Some(&moved) = of_name.holds.get(hold.at) {
            holds[moved].at = hold.at;
        }
        if of_name.holds.is_empty() {
            names.remove(&hold.name);
        }
        if names.is_empty() {
            buckets.remove(&hold.bucket);
        }
        if holds.is_empty() && holds.capacity() > KEEP {
            (*holds, *buckets) = (Slab::new(), HashMap::default());
        }
        // Its map may end with it, which takes a while.
        drop(state);
        drop(hold);
    }

    /// Reads the words of a bucket, or of one name in it. With what was recalled and is free by now:
    /// the client is about to say so.
    pub(super) fn look(&self, bucket: &str, name: Option<&ResourceName>) -> (Looks, Vec<Freed>) {
        let state = self.state();
        let (mut looks, mut freed) = (Vec::new(), Vec::new());
        let names = state.buckets.get(bucket);
        let (one, all) = match name {
            Some(name) => (names.and_then(|names| names.get(name)), None),
            None => (None, names),
        };
        let of_name = one.into_iter().chain(all.into_iter().flat_map(HashMap::values));
        for &key in of_name.flat_map(|of_name| &of_name.holds) {
            let hold = &state.holds[key];
            let look = hold.map.look(hold.slot);
            looks.push(Seen { key, look, owned: hold.owned });
            // What is lost is said to its holder first, and ends by that.
            if !hold.owned && look.is_free() {
                freed.push((hold.client.clone(), hold.request));
            }
        }
        (Looks(looks), freed)
    }

    /// Recalls those whose words have changed from one look to the next. What of it is free.
    ///
    /// Of what was recalled before, a change is the end, whatever the word says: an owner can only
    /// release it, once. One that goes on changing it would keep us looking.
    pub(super) fn recall_changed(&self, before: &Looks, after: &Looks) -> Vec<Freed> {
        let mut state = self.state();
        let State { holds, buckets, tally, tokens } = &mut *state;
        let mut freed = Vec::new();
        for (one, other) in before.0.iter().zip(&after.0) {
            let changed = (one != other).then(|| holds.get_mut(other.key)).flatten();
            let Some(hold) = changed else { continue };
            if !hold.owned {
                freed.push((hold.client.clone(), hold.request));
                continue;
            }
            let of_name = buckets.get_mut(&hold.bucket).and_then(|names| names.get_mut(&hold.name));
            freed
                .extend(of_name.and_then(|of_name| hold.settle(&mut of_name.owned, tally, tokens)));
        }
        freed
    }

    /// Of how many locks that are alike nobody held how many, at that look.
    pub(super) fn idle(&self, looks: &Looks) -> HashMap<EntryKey, usize> {
        let state = self.state();
        let mut idle = HashMap::new();
        // Of what is lost the engine has no lock any more.
        let is_idle = |seen: &&Seen| !seen.look.is_held() && !seen.look.is_lost();
        for seen in looks.0.iter().filter(is_idle) {
            if let Some(hold) = state.holds.get(seen.key) {
                let (name, mode, client_id) = (hold.name.clone(), hold.mode, hold.client_id);
                *idle.entry(EntryKey { name, mode, client_id }).or_default() += 1;
            }
        }
        idle
    }

    /// How it has gone.
    pub(super) fn tally(&self) -> Tally {
        let state = self.state();
        let taken = state.holds.iter().map(|(_, hold)| hold.taken());
        let taken = taken.fold(state.tally.taken, u64::saturating_add);
        Tally { taken, ..state.tally }
    }
}

impl Hold {
    /// Recalls its owner for others, if it has not been. What of it is free: who holds it says when it
    /// is.
    fn settle(
        &mut self,
        owned: &mut usize,
        tally: &mut Tally,
        tokens: &mut Bound,
    ) -> Option<Freed> {
        let recalled = self.disown(owned, tally, tokens)?;
        tally.recalled += 1;
        (recalled == Recalled::Free).then(|| (self.client.clone(), self.request))
    }

    /// Recalls its owner, if it has not been, and counts one less that own the name. Whether it is held.
    fn disown(
        &mut self,
        owned: &mut usize,
        tally: &mut Tally,
        tokens: &mut Bound,
    ) -> Option<Recalled> {
        if !mem::take(&mut self.owned) {
            return None;
        }
        *owned -= 1;
        tally.owned -= 1;
        let recalled = self.map.recall(self.slot);
        // Afterwards: nothing is taken any more.
        tokens.raise_above(self);
        Some(recalled)
    }

    /// The last token that its owner has had, as it has counted them. Those who share a name do not.
    fn last_token(&self) -> Option<u64> {
        let taken = self.map.look(self.slot).count().checked_sub(self.first)?;
        (self.mode == Mode::Exclusive).then(|| self.token.get().saturating_add(taken))
    }

    /// How often its owner has taken it without asking.
    fn taken(&self) -> u64 {
        self.map.look(self.slot).count().saturating_sub(self.first)
    }
}

impl Bound {
    /// The token of this moment: nobody has a larger one, however fast it counts.
    fn now(&self) -> u64 {
        self.epoch.wrapping_add(clock::now())
    }

    /// Goes above all that the owner has had, which takes nothing any more.
    fn raise_above(&mut self, hold: &Hold) {
        let now = self.now();
        let last = hold.last_token().map_or(now, |last| last.min(now));
        self.least = self.least.max(last.saturating_add(1));
    }
}
