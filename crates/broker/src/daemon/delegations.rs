//! Locks that stand in the maps of their clients, and the names that clients own by these locks.
//!
//! A lock that is granted in a slot of its client's [map](super::map) is held in the engine as any
//! other lock. If nobody waits for its name, the client *owns* the name from then on: it releases
//! the lock and takes it again in the map, without a message. The engine is not asked, and sees the
//! lock held all the time. So before the engine is asked about a name, or a request for it is made,
//! the name must be [settled](Delegations::settle): its owners are recalled, and the locks that
//! none of them holds at that moment are released.
//!
//! # Invariants
//!
//! - Before the engine sees a request, every owner of the name for whom the request would have to wait has
//!   lost the right to take the name. So an owner can overtake nobody in a queue.
//! - Before the engine releases a lock that is in a slot, the client can neither hold nor take the lock any
//!   more: see [`Delegation`].

mod guard;
mod holder;
mod looks;
mod observed;
mod token_bound;

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, Weak},
};

use foldhash::quality::RandomState;
use navlock_core::{ClientId, FencingToken, LockInfo, Mode, ResourceName, host::RequestKind};
use navlock_delegation::{Look, Recalled};
use navlock_engine::RequestId;
use navlock_wire::Slot;
use slab::Slab;

use self::{looks::ReadWord, token_bound::TokenBound};

pub(super) use self::{
    guard::Delegation,
    holder::{Freed, Holder, release},
    looks::Looks,
};
use super::map::ClientMap;
use crate::sync::lock;

/// Memory for more locks than this is freed once no lock is in a slot.
const KEEP: usize = 1024;

/// All locks that stand in slots.
///
/// Locking order: a client first, then the delegations. A thread that has the delegations locked
/// may lock no client.
#[derive(Debug)]
pub(super) struct Delegations {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    holds: Slab<Hold>,
    /// The locks by bucket and name. Each name in this table has at least one lock.
    ///
    /// The names come from many clients, so the hash is keyed: no client can make them collide to
    /// slow the others down.
    buckets: HashMap<Arc<str>, HashMap<ResourceName, OfName, RandomState>, RandomState>,
    tally: Tally,
    tokens: TokenBound,
}

/// The locks of one name that stand in slots.
#[derive(Debug, Default)]
struct OfName {
    holds: Vec<usize>,
    /// How many of these locks are owned, which means that they were not recalled yet.
    owned: usize,
    /// How many of these locks are exclusive, owned or not.
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
    /// Its place in [`OfName::holds`].
    at: usize,
    /// Whether the client can take the lock again, because the lock was not recalled yet.
    owned: bool,
    /// The count of the word when the lock was granted, and the token.
    first: u64,
    token: FencingToken,
    /// The word as lookers were last told it.
    seen: Option<Look>,
}

/// A lock that is granted in a slot.
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
    /// Whether the client owns the name from now on.
    pub(super) owned: bool,
}

/// Numbers about owned names, for reports.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// How many names are owned now; a name that several clients share counts for each of them.
    pub(super) owned: u64,
    /// How often owners have taken a name without asking.
    pub(super) taken: u64,
    /// How often an owner was recalled.
    pub(super) recalled: u64,
}

impl Delegations {
    /// `epoch` plus a moment is the smallest token of a grant at that moment.
    pub(super) fn new(epoch: u64) -> Arc<Self> {
        let tokens = TokenBound::new(epoch);
        Arc::new(Self { state: Mutex::new(State { tokens, ..State::default() }) })
    }

    /// A moment plus this number is the smallest fencing token of a client that takes a shared lock
    /// at that moment.
    pub(super) fn epoch(&self) -> u64 {
        lock(&self.state).tokens.epoch()
    }

    /// The smallest token that may be granted now for this name: larger than all that its owners have
    /// had. The module [`token_bound`] says why.
    pub(super) fn least_token(&self, bucket: &str, name: &ResourceName) -> FencingToken {
        let state = lock(&self.state);
        let of_name = state.buckets.get(bucket).and_then(|names| names.get(name));
        let is_owned = of_name.is_some_and(|of_name| of_name.owned > 0);
        FencingToken::new(if is_owned { state.tokens.now() } else { state.tokens.least() })
    }

    /// Recalls the owners for whom this request would have to wait, and releases the locks that
    /// these owners do not hold. To be called before the engine sees the request, with no client
    /// locked.
    pub(super) fn settle(&self, bucket: &str, name: &ResourceName, kind: RequestKind) {
        release(self.recall(bucket, name, kind));
    }

    /// Recalls the owners that would be in the way of this request. Returns the locks that are
    /// free.
    fn recall(&self, bucket: &str, name: &ResourceName, kind: RequestKind) -> Vec<Freed> {
        let mut state = lock(&self.state);
        let State { holds, buckets, tally, tokens } = &mut *state;
        let of_name = buckets.get_mut(bucket).and_then(|names| names.get_mut(name));
        // FAST: for a shared request, the owners of a shared lock are not looked at, however many they
        // are.
        let is_in_the_way =
            |of_name: &&mut OfName| kind.mode() == Mode::Exclusive || of_name.alone > 0;
        let Some(of_name) = of_name.filter(is_in_the_way) else { return Vec::new() };
        let OfName { holds: keys, owned, .. } = of_name;
        let freed = keys.iter().filter_map(|key| {
            let hold = &mut holds[*key];
            if hold.owned { hold.settle(owned, tally, tokens) } else { hold.freed() }
        });
        freed.collect()
    }

    /// The agents that have the name in a slot.
    pub(super) fn agents_of(&self, bucket: &str, name: &ResourceName) -> Vec<ClientId> {
        let state = lock(&self.state);
        let of_name = state.buckets.get(bucket).and_then(|names| names.get(name));
        let keys = of_name.into_iter().flat_map(|of_name| &of_name.holds);
        keys.map(|key| state.holds[*key].client_id).collect()
    }

    /// Tells all clients that have the name in a slot, through their maps, that it was stolen.
    pub(super) fn steal(&self, bucket: &str, name: &ResourceName) {
        let state = lock(&self.state);
        let of_name = state.buckets.get(bucket).and_then(|names| names.get(name));
        for hold in
            of_name.into_iter().flat_map(|of_name| &of_name.holds).map(|key| &state.holds[*key])
        {
            hold.map.steal(hold.slot);
        }
    }

    /// Notes a lock that stands in a slot. Returns its number.
    fn insert(&self, grant: Grant<'_>, first: u64) -> usize {
        let Grant { client, map, slot, request, bucket, name, mode, client_id, token, owned } =
            grant;
        let mut state = lock(&self.state);
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
        let mut state = lock(&self.state);
        let State { holds, buckets, tally, tokens } = &mut *state;
        let hold = holds.remove(key);
        if hold.owned {
            tokens.raise_above(hold.last_token());
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
        // The state is unlocked first: if this is the last use of the map, to unmap the map takes a
        // while.
        drop(state);
        drop(hold);
    }

    /// Reads the words of a bucket, or of one name in it. Also returns the locks that were recalled
    /// and are free now, even if their clients have not said so yet.
    pub(super) fn look(&self, bucket: &str, name: Option<&ResourceName>) -> (Looks, Vec<Freed>) {
        let state = lock(&self.state);
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
            looks.push(ReadWord { key, look, owned: hold.owned });
            freed.extend(hold.freed());
        }
        (Looks(looks), freed)
    }

    /// Recalls the owners whose words have changed from one look to the next. Returns the locks
    /// that are free.
    ///
    /// If the word of a lock that was recalled before has changed, the lock counts as free,
    /// whatever the word says: the client can only release such a lock, once. Otherwise a client
    /// that goes on changing the word would keep the daemon looking for ever.
    pub(super) fn recall_changed(&self, before: &Looks, after: &Looks) -> Vec<Freed> {
        let mut state = lock(&self.state);
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

    /// The locks that nobody held when the words were read.
    pub(super) fn idle(&self, looks: &Looks) -> Vec<LockInfo> {
        let state = lock(&self.state);
        // The engine has no lock any more for a word that says "lost".
        let is_idle = |seen: &&ReadWord| !seen.look.is_held() && !seen.look.is_lost();
        let idle = looks.0.iter().filter(is_idle).filter_map(|seen| state.holds.get(seen.key));
        idle.map(|hold| LockInfo::new(hold.name.clone(), hold.mode, hold.client_id)).collect()
    }

    /// The numbers so far.
    pub(super) fn tally(&self) -> Tally {
        let state = lock(&self.state);
        let taken = state.holds.iter().map(|(_, hold)| hold.taken());
        let taken = taken.fold(state.tally.taken, u64::saturating_add);
        Tally { taken, ..state.tally }
    }
}

impl Hold {
    /// Recalls the owner for another client, if the owner was not recalled yet. Returns the lock if
    /// it is free. If the lock is held, the holder tells when it has released the lock.
    fn settle(
        &mut self,
        owned: &mut usize,
        tally: &mut Tally,
        tokens: &mut TokenBound,
    ) -> Option<Freed> {
        let recalled = self.disown(owned, tally, tokens)?;
        tally.recalled += 1;
        (recalled == Recalled::Free).then(|| (self.client.clone(), self.request))
    }

    /// The lock, if its owner was recalled and has released it since: the word says so before the message comes.
    /// The holder of a lost lock is told first. That lock ends when the holder has seen the loss.
    fn freed(&self) -> Option<Freed> {
        let is_free = !self.owned && self.map.look(self.slot).is_free();
        is_free.then(|| (self.client.clone(), self.request))
    }

    /// Recalls the owner, if this was not done yet, and counts it as no owner any more. Returns
    /// whether the former owner holds the lock.
    fn disown(
        &mut self,
        owned: &mut usize,
        tally: &mut Tally,
        tokens: &mut TokenBound,
    ) -> Option<Recalled> {
        if !mem::take(&mut self.owned) {
            return None;
        }
        *owned -= 1;
        tally.owned -= 1;
        let recalled = self.map.recall(self.slot);
        // This comes after the recall, when the owner can take nothing any more.
        tokens.raise_above(self.last_token());
        Some(recalled)
    }

    /// The last token of the owner, by the count of the word. `None` for a shared lock, where
    /// tokens are not counted.
    fn last_token(&self) -> Option<u64> {
        let taken = self.map.look(self.slot).count().checked_sub(self.first)?;
        (self.mode == Mode::Exclusive).then(|| self.token.get().saturating_add(taken))
    }

    /// How often the owner has taken the lock without asking.
    fn taken(&self) -> u64 {
        self.map.look(self.slot).count().saturating_sub(self.first)
    }
}
