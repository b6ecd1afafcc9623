//! Slots: the last parts of the keys that requests have in the store.

use std::collections::HashMap;

use navlock_engine::RequestId;

use crate::{hash::HashState, keys::RequestKey};

/// The slots of one connection. A slot is the last part of a key, and is used again.
///
/// Until a deleted key is compacted away, it costs etcd time at each look at its name. A name that
/// a few requesters take and release all day must not leave a million deleted keys behind. So the
/// same few keys are used again.
///
/// # Invariant
///
/// A slot is used again only if nothing that was sent for it can still happen, which is so when
/// each try was answered. A slot for which an answer is missing is never used again.
#[derive(Debug)]
pub(crate) struct Slots {
    owner: u128,
    /// Slots from this one on were never used.
    next: u64,
    /// The slots that are free. The slot that was freed last is used first, so that few slots are
    /// in use, and a name gets the same slots again.
    free: Vec<u64>,
    by_key: HashMap<RequestKey, Slot, HashState>,
    /// Whether some slots of this connection will never be used again, and late tries may still
    /// make keys with these slots.
    has_spent: bool,
}

/// A slot that a request has, or may get.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Events up to this revision were about an earlier request.
    after: i64,
    /// `None` if the slot is free.
    id: Option<RequestId>,
    /// Whether each try that was made with the slot has been answered.
    is_certain: bool,
}

/// The owner of a key of which the store tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The key of this request, which may be over by now.
    Request(RequestId),
    /// The key of an earlier request of this connection, which is known to be gone; or another
    /// connection's key that is being removed.
    Past,
    /// A key of this connection that nobody knows of. It was made by a try that was given up.
    Stray,
    /// The key of another connection.
    Others,
}

impl Owner {
    /// The request, if this connection knows it.
    pub(crate) fn request(self) -> Option<RequestId> {
        match self {
            Self::Request(id) => Some(id),
            Self::Past | Self::Stray | Self::Others => None,
        }
    }
}

impl Slots {
    pub(crate) fn new(owner: u128) -> Self {
        Self { owner, next: 0, free: Vec::new(), by_key: HashMap::default(), has_spent: false }
    }

    /// The number of the connection.
    pub(crate) fn me(&self) -> u128 {
        self.owner
    }

    /// Takes a key for a request.
    pub(crate) fn take(&mut self, id: RequestId) -> RequestKey {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        let key = RequestKey { owner: self.owner, slot };
        let after = self.by_key.get(&key).map_or(0, |slot| slot.after);
        self.by_key.insert(key, Slot { after, id: Some(id), is_certain: true });
        key
    }

    /// Notes that a request has this key, which another connection made.
    pub(crate) fn adopt(&mut self, key: RequestKey, id: RequestId) {
        self.by_key.insert(key, Slot { after: 0, id: Some(id), is_certain: false });
    }

    /// Notes that nobody goes on with this key any more: another connection made it, and that
    /// connection is dead. The key is about to be removed, once or several times.
    pub(crate) fn give_up(&mut self, key: RequestKey) {
        self.by_key.insert(key, Slot { after: i64::MAX, id: None, is_certain: false });
    }

    /// Whether the key was given up.
    pub(crate) fn is_given_up(&self, key: RequestKey) -> bool {
        self.by_key.get(&key).is_some_and(|slot| slot.after == i64::MAX)
    }

    /// Notes that something was sent for the key and not answered.
    pub(crate) fn doubt(&mut self, key: RequestKey) {
        if let Some(slot) = self.by_key.get_mut(&key) {
            slot.is_certain = false;
        }
    }

    /// Whether each try that was made with the key has been answered.
    pub(crate) fn is_certain(&self, key: RequestKey) -> bool {
        self.by_key.get(&key).is_some_and(|slot| slot.is_certain)
    }

    /// To be called when nothing is left of this request in the store at this revision, and nobody will
    /// end it any more.
    pub(crate) fn free(&mut self, key: RequestKey, id: RequestId, revision: i64) {
        match self.by_key.get_mut(&key) {
            Some(slot) if slot.id == Some(id) && slot.is_certain => {
                (slot.after, slot.id) = (slot.after.max(revision), None);
                self.free.push(key.slot);
            }
            _ => self.retire(key, id),
        }
    }

    /// To be called when this request is over in a way that leaves open what happens to its key.
    /// The key is not used again.
    pub(crate) fn retire(&mut self, key: RequestKey, id: RequestId) {
        if self.by_key.get(&key).is_some_and(|slot| slot.id == Some(id)) {
            self.by_key.remove(&key);
            self.has_spent |= key.owner == self.owner;
        }
    }

    /// Whether this is a key of this connection that will never be used again.
    pub(crate) fn is_spent(&self, key: RequestKey) -> bool {
        key.owner == self.owner && key.slot < self.next && !self.by_key.contains_key(&key)
    }

    /// Whether late tries may still make keys with spent slots.
    pub(crate) fn has_spent(&self) -> bool {
        self.has_spent
    }

    /// To be called when the lease of the keys with spent slots has ended: late tries cannot make
    /// such keys any more.
    pub(crate) fn forget_spent(&mut self) {
        self.has_spent = false;
    }

    /// To be called when the store has begun anew: keys with these slots were made before that, or by
    /// late tries. The slots are not used again.
    pub(crate) fn forget(&mut self) {
        self.by_key.clear();
        self.free.clear();
        self.has_spent = false;
    }

    /// Whether a key that was made in this revision cannot have existed at the revision `at`,
    /// because it was gone before that.
    pub(crate) fn was_gone(&self, key: RequestKey, made: i64, at: i64) -> bool {
        self.by_key.get(&key).is_some_and(|slot| made <= slot.after && slot.after <= at)
    }

    /// The request that has the key now.
    pub(crate) fn holder(&self, key: RequestKey) -> Option<RequestId> {
        self.by_key.get(&key)?.id
    }

    /// The owner of a key that was made in this revision, or that an event of this revision is
    /// about.
    pub(crate) fn owner(&self, key: RequestKey, revision: i64) -> Owner {
        match self.by_key.get(&key) {
            Some(slot) if revision <= slot.after => Owner::Past,
            Some(Slot { id: Some(id), .. }) => Owner::Request(*id),
            _ if key.owner == self.owner => Owner::Stray,
            _ => Owner::Others,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(serial: u64) -> RequestId {
        RequestId::from_parts(0, serial)
    }

    #[test]
    fn a_given_up_slot_of_another_connection_is_nobodys() {
        let mut slots = Slots::new(7);
        let key = RequestKey { owner: 6, slot: 0 };
        assert_eq!(slots.owner(key, 5), Owner::Others);
        assert!(!slots.is_given_up(key));
        slots.give_up(key);
        assert_eq!(slots.owner(key, 5), Owner::Past);
        assert!(slots.is_given_up(key) && !slots.was_gone(key, 5, 6));
    }

    #[test]
    fn a_slot_is_used_again_and_what_was_before_is_not_taken_for_its_own() {
        let mut slots = Slots::new(7);
        let first = slots.take(id(1));
        assert_eq!(slots.owner(first, 5), Owner::Request(id(1)));
        slots.free(first, id(1), 10);
        assert_eq!(slots.owner(first, 10), Owner::Past);
        let second = slots.take(id(2));
        assert_eq!(first, second);
        assert_eq!(slots.owner(second, 10), Owner::Past);
        assert_eq!(slots.owner(second, 11), Owner::Request(id(2)));
        // Whoever has the slot frees it.
        slots.free(second, id(1), 12);
        assert_ne!(slots.take(id(3)), second);
        slots.free(second, id(2), 12);
        slots.free(second, id(2), 12);
        assert_ne!(slots.take(id(4)), slots.take(id(5)));
    }

    #[test]
    fn a_slot_in_doubt_is_never_used_again() {
        let mut slots = Slots::new(7);
        let first = slots.take(id(1));
        slots.doubt(first);
        assert!(!slots.is_spent(first) && !slots.has_spent());
        slots.free(first, id(1), 10);
        assert!(slots.is_spent(first) && slots.has_spent());
        let second = slots.take(id(2));
        assert_ne!(second, first);
        assert!(!slots.is_spent(second));
        slots.free(second, id(2), 10);
        // The slot will be used again.
        assert!(!slots.is_spent(second));
        assert_eq!(slots.owner(first, 11), Owner::Stray);
        assert_eq!(slots.owner(RequestKey { owner: 8, slot: 0 }, 11), Owner::Others);
    }
}
