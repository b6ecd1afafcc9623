//! Lists of names: when a list is asked for, and what follows from it for the locks and requests of
//! this connection.

use super::{Call, Keeper, Listed, findings::Finding, history::Known, wake};
use crate::{
    bucket::{Bucket, Todo},
    call_failure::Failure,
    data::{KeyValue, Listing},
    ended::Ended,
    keys::{NameKey, Phase},
    mirror::Entry,
    slots::Owner,
    table::{State, Status},
    tokens::token,
    view::Ownership,
    watched,
};
use std::time::Duration;

impl Keeper {
    /// Asks for a list of a name.
    pub(super) fn look(&mut self, bucket: u64, name: &NameKey, delay: Duration) {
        let Some(opened) = self.buckets.get_mut(&bucket) else { return };
        let Some(view) = opened.bucket.views.get_mut(name) else { return };
        let Some(begun) = view.look() else { return };
        let watch = view.watch;
        let prefix = opened.bucket.keys.name(name).all();
        self.list(Listed::Name(watch, begun), prefix, delay);
    }

    pub(super) fn list(&mut self, of: Listed, prefix: Vec<u8>, delay: Duration) {
        let (known, most) = (self.history.known(), usize::MAX);
        self.calls.push_back(Call::List { of, known, prefix, most, at: 0, delay });
    }

    /// Whether this list, with the keys in it, fits what is known. If it does not, this function
    /// forgets everything that was known.
    pub(super) fn takes(&mut self, known: Known, result: &Result<Listing, Failure>) -> bool {
        let listed = result.as_ref().ok();
        if !self.goes_on(known, listed.map(Listing::stamp)) {
            return false;
        }
        let Some(listed) = listed else { return true };
        // A store that was restored may have a larger revision than it had before.
        let is_undone = |kv: &KeyValue| {
            let found = self.buckets.values().find_map(|opened| opened.bucket.keys.parse(&kv.key));
            // An owner key has no slot.
            let found = found.filter(|key| key.phase != Phase::Owned);
            found.is_some_and(|key| self.slots.was_gone(key.request, kv.made, listed.revision))
        };
        if listed.found.iter().any(is_undone) {
            self.begin_anew(listed.cluster);
            return false;
        }
        true
    }

    pub(super) fn listed(&mut self, watch: u64, begun: u64, result: Result<Listing, Failure>) {
        let Some((bucket, name)) = self.watches.get(&watch).cloned() else { return };
        let opened = self.buckets.get_mut(&bucket);
        let Some(view) = opened.and_then(|opened| opened.bucket.views.get_mut(&name)) else {
            return;
        };
        if !view.looked(begun) {
            return;
        }
        let Ok(listed) = result else {
            // The events of the watch are of no use without a list.
            if view.early.is_some() {
                self.look(bucket, &name, Duration::from_millis(200));
            }
            return;
        };
        let early = view.early.take();
        self.take_list(bucket, &name, &listed.found, listed.revision);
        self.heed_events(bucket, &name, early.unwrap_or_default());
        self.advance_reclaims();
        self.advance_queries();
        self.forget(bucket);
    }

    /// Sets the mirror of a name to what was found at this revision, and tells the requests of this
    /// connection what follows from it.
    pub(super) fn take_list(&mut self, bucket: u64, name: &NameKey, found: &[KeyValue], at: i64) {
        let left = self.left();
        let Some(opened) = self.buckets.get_mut(&bucket) else { return };
        let Bucket { keys, views, .. } = &mut opened.bucket;
        let Some(mirror) = views.get_mut(name).map(|view| &mut view.mirror) else { return };
        let events = found.iter().filter_map(|kv| watched::read(keys, kv));
        mirror.reset(events.filter(|event| event.key.name == *name), at);
        let revision = mirror.revision();
        let owned = mirror.owned(self.slots.me()).map(|owned| (owned.made, owned.lease));
        if let Some((made, lease)) = owned {
            self.begin_owned(bucket, name, made, lease);
        }
        let is_asked = matches!(self.own_state(bucket, name), Ownership::Asked(_));
        let Some(opened) = self.buckets.get(&bucket) else { return };
        let Some(mirror) = opened.bucket.mirror(name) else { return };
        let mut wakers = Vec::new();
        let mut table = self.shared.table();
        for (id, key, status) in table.of_name(bucket, name) {
            if self.gone.iter().any(|gone| gone.id == id) {
                continue;
            }
            let is_its = |of: &&Entry| self.slots.owner(key, of.made) == Owner::Request(id);
            let its = |phase| mirror.get(phase, key).filter(is_its);
            let (lock, queued) = (its(Phase::Held), its(Phase::Queued));
            match (Finding::of_request(status, lock, queued, revision), status) {
                (Finding::Granted, _) => {
                    let held = lock.map(|lock| State::Held(lock.grant(), Vec::new()));
                    wakers.extend(held.and_then(|held| table.answer(id, held)));
                }
                (Finding::Waits(made), _) => table.queued(id, made),
                // The connection may own the name, and then only this connection knows of the
                // request.
                _ if is_asked => {}
                (Finding::Gone, Status::Held(since)) => {
                    wakers.extend(table.lose(id, mirror.why_gone(since.token)));
                }
                (Finding::Gone, Status::Pending(since)) => {
                    let how = mirror.why_gone(token(since));
                    wakers.extend(table.answer(id, State::Lost(how)));
                }
                _ => {}
            }
        }
        // Keys that nobody knows of. They were made by tries that were given up, of this connection
        // or of the one that had the lease before.
        let mut strays: Vec<Ended> = Vec::new();
        for (phase, entry) in mirror.entries() {
            // The work under that lease may not have ended yet.
            if phase == Phase::Held && self.leases.is_expiring(entry.lease) {
                continue;
            }
            let whose = self.slots.owner(entry.request, entry.made);
            let status = whose.request().map_or(Status::Absent, |id| table.status(id));
            let is_held = mirror.get(Phase::Held, entry.request).is_some();
            let stands = (opened.bucket.is_idle(name), is_held);
            let finding = Finding::of_entry((phase, entry), whose, status, stands, &left);
            if let Finding::Unwanted(only) = finding {
                strays.push(Ended { only, ..entry.ended() });
            }
        }
        drop(table);
        wake(wakers);
        if let Some(opened) = self.buckets.get_mut(&bucket) {
            for ended in strays {
                opened.bucket.push(name.clone(), Todo::Remove(ended, None));
            }
        }
        self.heed_owned(bucket, name, false);
        self.step(bucket, name);
    }
}
