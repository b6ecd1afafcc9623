//! What watches tell, and what follows from it for the locks and requests of this connection.

use std::{sync::Arc, time::Duration};

use navlock_core::Mode;

use super::{
    Call, Keeper,
    findings::{Finding, Notice},
    wake,
};
use crate::{
    bucket::{Bucket, Todo},
    clock::Uptime,
    ended::Ended,
    keys::{LockKey, NameKey, Phase},
    mirror::Entry,
    slots::Owner,
    table::{State, Status},
    tokens::Grant,
    values::Value,
    view::{MOST_UNUSED, Ownership, UNUSED, View},
    watched::{Event, Watched},
};

impl Keeper {
    /// Begins to watch a name, if it is not watched yet. If everything that the name had at some
    /// revision is known, the watch begins right after this revision, or else now.
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
        let mut view = View::unknown(watch);
        if let Some((all, revision)) = known {
            view.early = None;
            view.mirror.reset(all, revision);
        }
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
        let mut unused: Vec<(Uptime, u64, NameKey)> = Vec::new();
        let table = self.shared.table();
        for (&bucket, opened) in &mut self.buckets {
            let Bucket { views, .. } = &mut opened.bucket;
            let mut idle = Vec::new();
            for (name, view) in views.iter_mut() {
                let is_gone_from = self.gone.iter().any(|gone| gone.name == *name);
                let is_asked_for = table.has_requests(bucket, name);
                let is_reclaimed = self.reclaims.iter().any(|reclaim| reclaim.is_of(name));
                // The name is watched because of its keys, or its keys are not known yet.
                let is_unknown = view.early.is_some();
                let is_owned = view.own != Ownership::No;
                let is_used =
                    is_asked_for || is_gone_from || is_reclaimed || is_unknown || is_owned;
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
        if matches!(watched, Watched::GoOn) {
            return self.sweep_soon();
        }
        // The watch of a name that was forgotten is of no use any more.
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
                    return self.heed_events(bucket, &name, events);
                };
                early.extend(events.iter().cloned());
                // What was known before may come from a store that has begun anew since. The list
                // will show that.
                if !view.mirror.is_listed() && view.own == Ownership::No {
                    self.grant_unlisted(bucket, &name, &events);
                }
            }
            Watched::GoOn => {}
        }
    }

    /// Answers the waiting requests of this connection that were granted before their name was
    /// listed for the first time: they need nothing from the list. If a request of this connection
    /// holds the name, nothing is answered here, because its lock may have been lost before, and
    /// its holder has to hear of that first. The mirror takes in all of these events with the list.
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
            // A thief hears of its lock by the answer to its call, after the holders whom it has
            // robbed have heard of the theft.
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

    /// Does what follows from these events of the watch.
    pub(super) fn heed_events(&mut self, bucket: u64, name: &NameKey, events: Vec<Event>) {
        let left = self.left();
        let absorbed = self.heed_owner_keys(bucket, name, &events);
        let opened = self.buckets.get_mut(&bucket);
        let Some(view) = opened.and_then(|opened| opened.bucket.views.get_mut(name)) else {
            return;
        };
        let (mut gone, mut strays, mut wakers) = (Vec::new(), Vec::new(), Vec::new());
        let mut again = Vec::new();
        let thefts = thefts(&events);
        let mut is_robbed = false;
        let shared = Arc::clone(&self.shared);
        let mut table = shared.table();
        for event in events {
            let Event { key, revision, .. } = event.clone();
            let made = event.put.as_ref().map(|put| put.made);
            let put = event.put.clone();
            // The work under that lease may not have ended yet.
            let is_expiring = key.phase == Phase::Held
                && put.as_ref().is_some_and(|put| self.leases.is_expiring(put.lease));
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
            let owner = self.slots.owner(key.request, revision);
            let id = owner.request();
            let status = id.map_or(Status::Absent, |id| table.status(id));
            let is_absorbed = put.is_none() && absorbed.contains(&revision);
            let told = Notice { phase: key.phase, put: put.as_ref(), is_absorbed, is_expiring };
            match (Finding::of_event(&told, owner, status, &left), id) {
                (Finding::Unwanted(only), _) => strays.push((key, only)),
                (Finding::Granted, Some(id)) => {
                    let lock = view.mirror.get(Phase::Held, key.request);
                    let grant = lock.map(Entry::grant).or(made.map(Grant::at));
                    let held = grant.map(|grant| State::Held(grant, Vec::new()));
                    wakers.extend(held.and_then(|held| table.answer(id, held)));
                }
                (Finding::Waits(made), Some(id)) => table.queued(id, made),
                (Finding::AskAgain, Some(id)) => again.extend(table.wait_again(id)),
                (Finding::Gone, Some(id)) => gone.push((key, id, revision)),
                (_, None) | (Finding::Nothing, _) => {}
            }
        }
        view.mirror.settle();
        // This is told together with the grants, so that a thief finds that the robbed holders know
        // of the theft.
        let fallout = self.judge_gone(bucket, name, &mut table, &mut wakers, gone, &thefts);
        drop(table);
        wake(wakers);
        self.remove_strays(bucket, strays);
        self.settle_gone(fallout);
        self.ask_again(again);
        self.heed_owned(bucket, name, is_robbed);
        self.step(bucket, name);
    }

    /// Begins to own the name, if one of these events is that the owner key of this connection was made.
    /// Returns the revisions in which that was: the requests of this connection have gone from the store in
    /// the same revision, and are queued here from now on; or a late try has made the key.
    fn heed_owner_keys(&mut self, bucket: u64, name: &NameKey, events: &[Event]) -> Vec<i64> {
        let mut absorbed = Vec::new();
        for event in events {
            let LockKey { phase, request, .. } = event.key;
            let is_ours = phase == Phase::Owned && request.owner == self.slots.me();
            if let Some(put) = event.put.as_ref().filter(|_| is_ours) {
                self.begin_owned(bucket, name, put.made, put.lease);
                absorbed.push(put.made);
            }
        }
        absorbed
    }

    /// Removes keys that a try made after it was given up.
    fn remove_strays(&mut self, bucket: u64, strays: Vec<(LockKey, Option<Phase>)>) {
        let Some(opened) = self.buckets.get_mut(&bucket) else { return };
        for (key, only) in strays {
            let ended = Ended { id: None, request: key.request, mode: key.mode, only };
            opened.bucket.push(key.name, Todo::Remove(ended, None));
        }
    }
}

/// The revisions in which a lock was stolen: a thief puts its own lock in the revision in which it
/// deletes the others'.
fn thefts(events: &[Event]) -> Vec<i64> {
    let steals = |event: &Event| {
        let is_lock = event.key.phase == Phase::Held && event.key.mode == Mode::Exclusive;
        let is_new = event.put.as_ref().is_some_and(|put| put.made == event.revision);
        (is_lock && is_new).then_some(event.revision)
    };
    events.iter().filter_map(steals).collect()
}
