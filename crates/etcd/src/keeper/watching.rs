//! What watches and lists say, and what it means for ours.

use std::{collections::HashSet, sync::Arc, task::Waker, time::Duration};

use navlock_core::{ClientId, Lost, Mode};
use navlock_engine::RequestId;

use super::{
    AgentSerial, Call, Keeper, Listed,
    agent::Agent,
    history::Known,
    pending_lists::{Gone, List, MOST_LISTS},
    wake,
};
use crate::{
    bucket::{Bucket, Todo},
    clock::Moment,
    data::{KeyValue, Listing},
    ended::Ended,
    failure::{Failure, place_removed},
    keys::{LockKey, NameKey, Phase, RequestKey},
    mirror::{Entry, Event, Mirror},
    slots::Owner,
    table::{Again, State, Status, Table},
    tokens::{Grant, token},
    values::Value,
    view::{MOST_UNUSED, Own, UNUSED, View},
    watch::{self, Watched},
};

impl Keeper {
    /// Begins to watch a name, if it is not watched yet: from the revision on in which this was all
    /// there was, or else from now on.
    pub(super) fn open_view(
        &mut self,
        bucket: u64,
        name: &NameKey,
        known: Option<(Vec<Event>, i64)>,
    ) {
        let Some(opened) = self.buckets.get_mut(&bucket) else { return };
        if let Some(view) = opened.bucket.views.get_mut(name) {
            view.note_use(true);
            return;
        }
        let watch = self.next_watch;
        self.next_watch += 1;
        let from = known.as_ref().map(|&(_, revision)| revision + 1);
        let mut view = match known {
            Some((all, revision)) => View::known(watch, all, revision),
            None => View::unknown(watch),
        };
        view.owned_after(self.options.taken);
        opened.bucket.views.insert(name.clone(), view);
        self.watches.insert(watch, (bucket, name.clone()));
        let keys = opened.bucket.keys.clone();
        let prefix = keys.name(name).all();
        self.calls.push_back(Call::Watch { watch, keys, prefix, from });
    }

    /// Forgets what is known of a name.
    pub(super) fn close_view(&mut self, bucket: u64, name: &NameKey) {
        let Some(opened) = self.buckets.get_mut(&bucket) else { return };
        if let Some(View { watch, .. }) = opened.bucket.views.remove(name) {
            self.watches.remove(&watch);
            self.calls.push_back(Call::Unwatch { watch });
        }
    }

    /// Forgets the names that nobody has used for a while.
    pub(super) fn close_unused(&mut self) {
        let mut unused: Vec<(Moment, u64, NameKey)> = Vec::new();
        let table = self.shared.table();
        for (&bucket, opened) in &mut self.buckets {
            let Bucket { views, .. } = &mut opened.bucket;
            let mut idle = Vec::new();
            for (name, view) in views.iter_mut() {
                let is_gone_from = self.gone.iter().any(|gone| gone.name == *name);
                let is_asked_for = table.has_requests(bucket, name);
                let is_recalled = self.recalls.iter().any(|recall| recall.is_of(name));
                // It is watched for what it was found to have, or nobody knows yet.
                let is_unknown = view.early.is_some();
                let is_owned = view.own != Own::No;
                let is_used = is_asked_for || is_gone_from || is_recalled || is_unknown || is_owned;
                idle.extend(view.note_use(is_used).map(|since| (since, name.clone())));
            }
            idle.retain(|(_, name)| opened.bucket.is_idle(name));
            unused.extend(idle.into_iter().map(|(since, name)| (since, bucket, name)));
        }
        drop(table);
        unused.sort_unstable_by_key(|&(since, ..)| since);
        let beyond = unused.len().saturating_sub(MOST_UNUSED);
        for (nth, (since, bucket, name)) in unused.into_iter().enumerate() {
            if nth < beyond || since.elapsed() >= UNUSED {
                self.close_view(bucket, &name);
                self.forget(bucket);
            }
        }
    }

    pub(super) fn watched(&mut self, watch: u64, watched: Watched) {
        // What is told of a name that was forgotten is of no use any more.
        let Some((bucket, name)) = self.watches.get(&watch).cloned() else { return };
        let opened = self.buckets.get_mut(&bucket);
        let Some(view) = opened.and_then(|opened| opened.bucket.views.get_mut(&name)) else {
            return;
        };
        match watched {
            Watched::Up => {
                view.begin();
                self.look(bucket, &name, Duration::ZERO);
            }
            Watched::Events(events) => {
                let revision = events.iter().map(|event| event.revision).max();
                self.history.heard(revision.unwrap_or_default());
                let Some(early) = &mut view.early else {
                    return self.happened(bucket, &name, events);
                };
                early.extend(events.iter().cloned());
                // What was known before may be of an etcd that has gone back since, which the list shows.
                if !view.mirror.is_listed() && view.own == Own::No {
                    self.grant_unlisted(bucket, &name, &events);
                }
            }
        }
    }

    /// Answers those of ours that have waited and are granted a name that was never listed: the list tells them
    /// nothing that they need. But not beside one that holds, and may have lost that before: it hears of that first.
    /// All of it is taken in with the list.
    fn grant_unlisted(&self, bucket: u64, name: &NameKey, events: &[Event]) {
        let mut table = self.shared.table();
        let all = table.of_name(bucket, name);
        if all.iter().any(|(.., status)| matches!(status, Status::Held(_))) {
            return;
        }
        let mut wakers = Vec::new();
        for Event { key, revision, put } in events {
            let owner = self.slots.owner(key.request, *revision);
            let Some(put) = put.as_ref().filter(|_| key.phase == Phase::Held) else {
                let holder = match owner {
                    Owner::Request(id) if key.phase == Phase::Held => Some(id),
                    _ => None,
                };
                if holder.is_some_and(|id| matches!(table.status(id), Status::Held(_))) {
                    break;
                }
                continue;
            };
            // A thief is told by the answer to its call, after those whom it has robbed.
            let has_waited = events.iter().any(|event| {
                let LockKey { phase, request, .. } = event.key;
                let is_end = phase == Phase::Queued && event.put.is_none();
                is_end && event.revision == *revision && request == key.request
            });
            if let (Owner::Request(id), true) = (owner, has_waited) {
                let grant = Grant::marked(put.made, Value::mark(&put.value));
                wakers.extend(table.answer(id, State::Held(grant, Vec::new())));
            }
        }
        drop(table);
        wake(wakers);
    }

    /// Takes in what the watch tells.
    fn happened(&mut self, bucket: u64, name: &NameKey, events: Vec<Event>) {
        let left = self.left();
        let is_left = |lease, value: &[u8]| left.covers(lease, value);
        // Its requests have gone in the same revision, and are here; or a late try has done that.
        let mut absorbed = Vec::new();
        for event in &events {
            let LockKey { phase, request, .. } = event.key;
            let is_ours = phase == Phase::Owned && request.owner == self.slots.me();
            if let Some(put) = event.put.as_ref().filter(|_| is_ours) {
                self.begin_owned(bucket, name, put.made, put.lease);
                absorbed.push(put.made);
            }
        }
        let opened = self.buckets.get_mut(&bucket);
        let Some(view) = opened.and_then(|opened| opened.bucket.views.get_mut(name)) else {
            return;
        };
        let (mut gone, mut strays, mut wakers) = (Vec::new(), Vec::new(), Vec::new());
        let mut again = Vec::new();
        // Whoever steals puts its own in the revision in which it takes the others'.
        let steals = |event: &Event| {
            let is_lock = event.key.phase == Phase::Held && event.key.mode == Mode::Exclusive;
            let is_new = event.put.as_ref().is_some_and(|put| put.made == event.revision);
            (is_lock && is_new).then_some(event.revision)
        };
        let thefts: Vec<_> = events.iter().filter_map(steals).collect();
        let mut is_robbed = false;
        let shared = Arc::clone(&self.shared);
        let mut table = shared.table();
        for event in events {
            let Event { key, revision, .. } = event.clone();
            let made = event.put.as_ref().map(|put| put.made);
            let put = event.put.clone();
            // What works under it may not have ended yet.
            let is_lapsing = key.phase == Phase::Held
                && put.as_ref().is_some_and(|put| self.lapsing.contains_key(&put.lease));
            if !view.mirror.apply(event) {
                continue;
            }
            if key.request.owner != self.slots.me() && made.is_some() {
                view.note_others();
            }
            if key.phase == Phase::Owned {
                is_robbed |= made.is_none() && thefts.contains(&revision);
                continue;
            }
            let id = match self.slots.owner(key.request, revision) {
                Owner::Request(id) => id,
                Owner::Stray if made.is_some() => {
                    strays.push((key, None));
                    continue;
                }
                Owner::Foreign if put.is_some_and(|put| is_left(put.lease, &put.value)) => {
                    strays.push((key, None));
                    continue;
                }
                _ => continue,
            };
            match (made, key.phase) {
                // By a late try, of what was lost by then.
                (Some(_), _) if table.status(id) == Status::Ended => {
                    if !is_lapsing {
                        strays.push((key, None));
                    }
                }
                (Some(_), Phase::Queued) if matches!(table.status(id), Status::Held(_)) => {
                    strays.push((key, Some(Phase::Queued)));
                }
                (Some(made), Phase::Held) => {
                    let lock = view.mirror.get(Phase::Held, key.request);
                    let grant = lock.map_or_else(|| Grant::at(made), Entry::grant);
                    wakers.extend(table.answer(id, State::Held(grant, Vec::new())));
                }
                (Some(made), Phase::Queued) => table.queued(id, made),
                (Some(_), Phase::Owned) => {}
                (None, Phase::Queued) if absorbed.contains(&revision) => {
                    again.extend(table.wait_again(id, true));
                }
                (None, _) => gone.push((key, id, revision)),
            }
        }
        // In the same breath as what was granted: a thief finds those whom it has robbed robbed.
        let fallout = self.judge_gone(bucket, name, &mut table, &mut wakers, gone, &thefts);
        drop(table);
        wake(wakers);
        // What came of a try that was given up.
        if let Some(opened) = self.buckets.get_mut(&bucket) {
            for (key, only) in strays {
                let ended = Ended { id: None, request: key.request, mode: key.mode, only };
                opened.bucket.push(key.name, Todo::Remove(ended, None));
            }
        }
        self.settle_gone(fallout);
        self.ask_again(again);
        self.heed_owned(bucket, name, is_robbed);
        self.step(bucket, name);
    }

    /// What of ours is gone that nobody here has ended: why, and what that means for the rest.
    ///
    /// The end of a lease is told by each name's watch, one after the other. So what was all that a
    /// name had under a lease is judged only when etcd has said whether it keeps that.
    fn judge_gone(
        &self,
        bucket: u64,
        name: &NameKey,
        table: &mut Table,
        wakers: &mut Vec<Waker>,
        gone: Vec<(LockKey, RequestId, i64)>,
        thefts: &[i64],
    ) -> Fallout {
        let mut doubted = Vec::new();
        let (mut removed, mut again) = (Vec::new(), Vec::new());
        for (key, id, revision) in gone {
            match (key.phase, table.status(id)) {
                (Phase::Held, Status::Held(_)) if thefts.contains(&revision) => {
                    wakers.extend(table.lose(id, Lost::Stolen));
                }
                // Not a request when it became a lock, which was told with it.
                (Phase::Held, Status::Held(_)) | (Phase::Queued, Status::Pending(_)) => {
                    removed.push((id, revision));
                }
                _ => {}
            }
        }
        let lease_of = |table: &mut Table, id| {
            let serial = table.agent_of(id)?;
            self.agents.get(&serial).and_then(Agent::lease_id)
        };
        let is_free_of =
            |mirror: &Mirror, lease| mirror.entries().all(|(_, entry)| entry.lease != lease);
        let here = self.buckets.get(&bucket).and_then(|opened| opened.bucket.mirror(name));
        let is_all_here = |lease| here.is_none_or(|mirror| is_free_of(mirror, lease));
        let is_all = |lease| {
            let mut views = self.buckets.values().flat_map(|opened| opened.bucket.views.values());
            views.all(|view| is_free_of(&view.mirror, lease))
        };
        let mut held_back = Vec::new();
        for &(id, revision) in &removed {
            let Some(lease) = lease_of(table, id) else { continue };
            let is_last = is_all_here(lease);
            if is_last && is_all(lease) {
                // Who waits asks again, whatever it was; then it is seen.
                let waits_on = self.options.waits_through_outages;
                if let Some(asked) = table.wait_again(id, waits_on) {
                    again.push(asked);
                    continue;
                }
            }
            if is_last && self.leases.contains_key(&lease) {
                let (name, since) = (name.clone(), Moment::now());
                held_back.push(Gone { lease, name, id, revision, since });
            } else {
                wakers.extend(tell_removed(table, id));
            }
            // It may be its lease that has gone, if this was all there was under it.
            if !doubted.contains(&lease) {
                doubted.push(lease);
            }
        }
        Fallout { again, doubted, held_back }
    }

    /// Etcd kept a lease at this moment: what had gone from under it before was removed by somebody.
    pub(super) fn judge_held_back(&mut self, lease: i64, kept: Moment) {
        let is_due = |gone: &Gone| gone.lease == lease && gone.since <= kept;
        let (due, rest) = std::mem::take(&mut self.gone).into_iter().partition::<Vec<_>, _>(is_due);
        self.gone = rest;
        let mut wakers = Vec::new();
        let mut table = self.shared.table();
        for Gone { id, revision, .. } in due {
            // It may be there again, by a late try.
            let is_gone = match table.status(id) {
                Status::Held(grant) => grant.made <= revision,
                Status::Pending(since) => since <= revision,
                Status::Ended | Status::Absent => false,
            };
            if is_gone {
                wakers.extend(tell_removed(&mut table, id));
            }
        }
        drop(table);
        wake(wakers);
    }

    /// Does what is to be done because of it.
    fn settle_gone(&mut self, Fallout { again, doubted, held_back }: Fallout) {
        self.gone.extend(held_back);
        self.ask_again(again);
        for lease in doubted {
            self.look_after(lease);
        }
    }

    /// Removes what a try that was given up has made after all, after its request was over.
    pub(super) fn remove_late(&mut self, bucket: u64, name: &NameKey, key: RequestKey, over: i64) {
        if self.slots.owner(key, i64::MAX) != Owner::Stray {
            return;
        }
        let Some(opened) = self.buckets.get_mut(&bucket) else { return };
        let late = |&(_, entry): &(_, &Entry)| entry.request == key && entry.made > over;
        let mut entries = opened.bucket.mirror(name).into_iter().flat_map(Mirror::entries);
        if let Some(ended) = entries.find(late).map(|(_, entry)| entry.ended()) {
            drop(entries);
            opened.bucket.push(name.clone(), Todo::Remove(ended, None));
        }
    }

    /// Lists a name.
    pub(super) fn look(&mut self, bucket: u64, name: &NameKey, delay: Duration) {
        let Some(opened) = self.buckets.get_mut(&bucket) else { return };
        let Some(view) = opened.bucket.views.get_mut(name) else { return };
        let Some(begun) = view.look() else { return };
        let list = List { watch: view.watch, begun, delay };
        if self.lists.running < MOST_LISTS {
            self.lists.running += 1;
            self.list_name(list);
        } else {
            self.lists.waiting.push_back(list);
        }
    }

    fn list_name(&mut self, List { watch, begun, delay }: List) {
        let found = self.watches.get(&watch);
        let found = found.and_then(|(bucket, name)| Some((self.buckets.get(bucket)?, name)));
        let Some((opened, name)) = found else { return };
        let prefix = opened.bucket.keys.name(name).all();
        self.list(Listed::Name(watch, begun), prefix, delay);
    }

    /// One list of a name has come, or is of no use any more: the next one.
    pub(super) fn list_next(&mut self) {
        self.lists.running -= 1;
        while let Some(list) = self.lists.waiting.pop_front() {
            if self.watches.contains_key(&list.watch) {
                self.lists.running += 1;
                return self.list_name(list);
            }
        }
    }

    pub(super) fn list(&mut self, of: Listed, prefix: Vec<u8>, delay: Duration) {
        let (known, most) = (self.history.known(), usize::MAX);
        self.calls.push_back(Call::List { of, known, prefix, most, delay });
    }

    /// Whether this list can be put together with what is known, also of the keys in it. If not, all
    /// that was known is forgotten by then.
    pub(super) fn takes(&mut self, known: Known, result: &Result<Listing, Failure>) -> bool {
        let listed = result.as_ref().ok();
        if !self.goes_on(known, listed.map(Listing::stamp)) {
            return false;
        }
        let Some(listed) = listed else { return true };
        // A restored etcd may have come further since than the one before it had.
        let is_undone = |kv: &KeyValue| {
            let found = self.buckets.values().find_map(|opened| opened.bucket.keys.parse(&kv.key));
            // Who owns a name has no slot for that.
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
            // What the watch tells is of no use without it.
            if view.early.is_some() {
                self.look(bucket, &name, Duration::from_millis(200));
            }
            return;
        };
        let early = view.early.take();
        self.take_in(bucket, &name, &listed.found, listed.revision);
        self.happened(bucket, &name, early.unwrap_or_default());
        self.advance_recalls();
        self.advance_queries();
        self.forget(bucket);
    }

    /// Sets the mirror of a name by what was found of it at this revision, and what that says of ours.
    pub(super) fn take_in(&mut self, bucket: u64, name: &NameKey, found: &[KeyValue], at: i64) {
        let left = self.left();
        let Some(opened) = self.buckets.get_mut(&bucket) else { return };
        let Bucket { keys, views, .. } = &mut opened.bucket;
        let Some(mirror) = views.get_mut(name).map(|view| &mut view.mirror) else { return };
        let events = found.iter().filter_map(|kv| watch::read(keys, kv));
        mirror.reset(events.filter(|event| event.key.name == *name), at);
        let revision = mirror.revision();
        let owned = mirror.owned(self.slots.me()).map(|owned| (owned.made, owned.lease));
        if let Some((made, lease)) = owned {
            self.begin_owned(bucket, name, made, lease);
        }
        let Some(opened) = self.buckets.get_mut(&bucket) else { return };
        let is_asked =
            opened.bucket.views.get(name).is_some_and(|view| matches!(view.own, Own::Asked(_)));

        let opened = &*opened;
        let Some(mirror) = opened.bucket.mirror(name) else { return };
        let mut wakers = Vec::new();
        let mut table = self.shared.table();
        for (id, key, status) in table.of_name(bucket, name) {
            if self.gone.iter().any(|gone| gone.id == id) {
                continue;
            }
            let is_its = |of: &&Entry| self.slots.owner(key, of.made) == Owner::Request(id);
            let its = |phase| mirror.get(phase, key).filter(is_its);
            match (status, its(Phase::Held), its(Phase::Queued)) {
                (Status::Pending(_), Some(lock), _) => {
                    wakers.extend(table.answer(id, State::Held(lock.grant(), Vec::new())));
                }
                (Status::Pending(_), None, Some(waits)) => table.queued(id, waits.made),
                // It may be here.
                _ if is_asked => {}
                // Granted and taken again while nobody watched. Had its lease ended, that would be
                // told by whoever keeps it.
                (Status::Pending(since), None, None) if since > 0 && since <= revision => {
                    let how = mirror.why_gone(token(since));
                    wakers.extend(table.answer(id, State::Lost(how)));
                }
                (Status::Held(since), None, _) if since.made <= revision => {
                    wakers.extend(table.lose(id, mirror.why_gone(since.token)));
                }
                _ => {}
            }
        }
        // Of which nobody knows: what a try came to that was given up, be it our own or that of
        // whoever had a lease before us.
        let mut strays: Vec<Ended> = Vec::new();
        for (phase, entry) in mirror.entries() {
            // What works under it may not have ended yet.
            if phase == Phase::Held && self.lapsing.contains_key(&entry.lease) {
                continue;
            }
            let only = match self.slots.owner(entry.request, entry.made) {
                Owner::Request(id) => match (table.status(id), phase) {
                    (Status::Held(_), Phase::Queued)
                        if mirror.get(Phase::Held, entry.request).is_some() =>
                    {
                        Some(Phase::Queued)
                    }
                    (Status::Ended | Status::Absent, _) if opened.bucket.is_idle(name) => None,
                    _ => continue,
                },
                Owner::Stray => None,
                Owner::Foreign if left.covers(entry.lease, &entry.value) => None,
                Owner::Foreign | Owner::Past => continue,
            };
            strays.push(Ended { only, ..entry.ended() });
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

/// Tells whose it is that somebody has removed it.
fn tell_removed(table: &mut Table, id: RequestId) -> Vec<Waker> {
    match table.status(id) {
        Status::Held(_) => table.lose(id, Lost::Removed),
        _ => table.answer(id, State::Failed(place_removed())).into_iter().collect(),
    }
}

/// What is to be done because something of ours is gone.
struct Fallout {
    /// What is to be asked for again, and of which agents.
    again: Vec<(AgentSerial, Again)>,
    /// Leases that may have ended.
    doubted: Vec<i64>,
    /// What is told when that is known.
    held_back: Vec<Gone>,
}

/// What agents of ours may have left behind that had it through another connection: under which
/// leases, and whose.
struct Left {
    leases: Vec<i64>,
    agents: HashSet<ClientId>,
}

impl Left {
    /// Whether this is of them. What they go on with is ours by now.
    fn covers(&self, lease: i64, value: &[u8]) -> bool {
        let is_theirs = |client_id| self.agents.contains(&client_id);
        self.leases.contains(&lease) && Value::client_id(value).is_some_and(is_theirs)
    }
}

impl Keeper {
    fn left(&self) -> Left {
        let leases: Vec<i64> =
            self.leases.keys().copied().filter(|&id| self.is_recalled(id)).collect();
        if leases.is_empty() {
            return Left { leases, agents: HashSet::new() };
        }
        let recalled = self.agents.values().filter(|agent| agent.is_recalled);
        Left { leases, agents: recalled.map(|agent| agent.client_id).collect() }
    }
}
