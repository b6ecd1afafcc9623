//! What watches and lists say, and what it means for ours.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    task::Waker,
    time::Duration,
};

use navlock_core::{ClientId, Lost, Mode};
use navlock_engine::RequestId;

use super::{AgentSerial, Call, House, Keeper, Listed, agents::Agent, history::Known, wake};
use crate::{
    bucket::Todo,
    clock::Moment,
    data::{KeyValue, Listing},
    failure::{Failure, place_removed},
    hash::HashState,
    keys::{LockKey, NameKey, Phase, RequestKey},
    mirror::{Entry, Event},
    query::token,
    slots::Owner,
    table::{Again, State, Status, Table},
    transactions::Ended,
    values::Value,
    watch::{self, Watched},
};

impl Keeper {
    /// Begins to watch a bucket, if it is not watched yet.
    pub(super) fn watch(&mut self, bucket: u64) {
        let Some(house) = self.buckets.get_mut(&bucket) else { return };
        if !std::mem::replace(&mut house.is_watched, true) {
            let keys = house.bucket.keys.clone();
            self.calls.push_back(Call::Watch { bucket, keys });
        }
    }

    pub(super) fn watched(&mut self, bucket: u64, watched: Watched) {
        let Some(house) = self.buckets.get_mut(&bucket) else { return };
        match watched {
            Watched::Up => {
                house.is_anew = false;
                house.bucket.early = Some(Vec::new());
                // A list that is on its way is older than what this watch tells.
                house.watches += 1;
                house.is_looking = false;
                self.look(bucket, Duration::ZERO);
            }
            // Of before etcd began anew.
            Watched::Events(_) if house.is_anew => {}
            Watched::Events(events) => {
                let revision = events.iter().map(|event| event.revision).max();
                self.history.heard(revision.unwrap_or_default());
                match &mut house.bucket.early {
                    Some(early) => early.extend(events),
                    None => self.happened(bucket, events),
                }
            }
        }
    }

    /// Takes in what the watch tells.
    fn happened(&mut self, bucket: u64, events: Vec<Event>) {
        let left = self.left();
        let is_left = |lease, value: &[u8]| left.covers(lease, value);
        let Some(house) = self.buckets.get_mut(&bucket) else { return };
        let (mut touched, mut gone, mut wakers) = (Vec::new(), Vec::new(), Vec::new());
        let mut strays = Vec::new();
        // Whoever steals puts its own in the revision in which it takes the others'.
        let steals = |event: &Event| {
            let is_lock = event.key.phase == Phase::Held && event.key.mode == Mode::Exclusive;
            let is_new = event.put.as_ref().is_some_and(|put| put.made == event.revision);
            (is_lock && is_new).then(|| (event.key.name.clone(), event.revision))
        };
        let thefts: Vec<_> = events.iter().filter_map(steals).collect();
        let shared = Arc::clone(&self.shared);
        let mut table = shared.table();
        for event in events {
            let Event { key, revision, .. } = event.clone();
            let made = event.put.as_ref().map(|put| put.made);
            let put = event.put.clone();
            if !house.bucket.mirror.apply(event) {
                continue;
            }
            if touched.last() != Some(&key.name) {
                touched.push(key.name.clone());
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
                // By a late try.
                (Some(_), Phase::Queued) if matches!(table.status(id), Status::Held(_)) => {
                    strays.push((key, Some(Phase::Queued)));
                }
                (Some(made), Phase::Held) => {
                    let granted = State::Held(token(made), Vec::new());
                    wakers.extend(table.answer(id, granted));
                }
                (Some(made), Phase::Queued) => table.queued(id, made),
                (None, _) => gone.push((key, id, revision)),
            }
        }
        // In the same breath as what was granted: a thief finds those whom it has robbed robbed.
        let fallout = self.judge_gone(bucket, &mut table, &mut wakers, gone, &thefts);
        drop(table);
        wake(wakers);
        // What came of a try that was given up.
        if let Some(house) = self.buckets.get_mut(&bucket) {
            for (key, only) in strays {
                let ended = Ended { id: None, request: key.request, mode: key.mode, only };
                house.bucket.push(key.name, Todo::Remove(ended, None));
            }
        }
        self.settle_gone(fallout);
        for name in touched {
            self.step(bucket, &name);
        }
    }

    /// What of ours is gone that nobody here has ended: why, and what that means for the rest.
    ///
    /// The end of a lease is told by each bucket's watch, one after the other. So what was all that a
    /// bucket had under a lease is judged only when etcd has said whether it keeps that.
    fn judge_gone(
        &self,
        bucket: u64,
        table: &mut Table,
        wakers: &mut Vec<Waker>,
        gone: Vec<(LockKey, RequestId, i64)>,
        thefts: &[(NameKey, i64)],
    ) -> Fallout {
        let mut doubted = Vec::new();
        let (mut robbed, mut removed, mut again) = (Vec::new(), Vec::new(), Vec::new());
        for (key, id, revision) in gone {
            match (key.phase, table.status(id)) {
                (Phase::Held, Status::Held(_)) if thefts.contains(&(key.name, revision)) => {
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
        let mut counts: HashMap<(i64, i64), usize, HashState> = HashMap::default();
        for &(id, revision) in &removed {
            if let Some(lease) = lease_of(table, id) {
                *counts.entry((lease, revision)).or_default() += 1;
            }
        }
        let is_free = |house: &House, lease| {
            house.bucket.mirror.entries().all(|(.., entry)| entry.lease != lease)
        };
        let is_all_here = |lease| self.buckets.get(&bucket).is_none_or(|of| is_free(of, lease));
        let is_all = |lease| self.buckets.values().all(|house| is_free(house, lease));
        let mut held_back = Vec::new();
        for &(id, revision) in &removed {
            // What was under a lease under which all is lost ends with it.
            let lease = lease_of(table, id).filter(|lease| !robbed.contains(lease));
            let Some(lease) = lease else { continue };
            let count = counts.get(&(lease, revision)).copied().unwrap_or_default();
            let is_last = is_all_here(lease);
            if is_last && is_all(lease) {
                // Several at once, and all there was: they have gone with their lease.
                if count > 1 {
                    robbed.push(lease);
                    continue;
                }
                // Or by itself. Who waits asks again, whatever it was; then it is seen.
                let waits_on = self.options.waits_through_outages;
                if let Some(asked) = table.wait_again(id, waits_on) {
                    again.push(asked);
                    continue;
                }
            }
            if is_last && self.leases.contains_key(&lease) {
                held_back.push(Gone { lease, id, revision, since: Moment::now() });
            } else {
                wakers.extend(tell_removed(table, id));
            }
            // It may be its lease that has gone, if this was all there was under it.
            if !doubted.contains(&lease) {
                doubted.push(lease);
            }
        }
        Fallout { robbed, again, doubted, held_back }
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
                Status::Held(of) => of <= token(revision),
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
    fn settle_gone(&mut self, Fallout { robbed, again, doubted, held_back }: Fallout) {
        self.gone.extend(held_back);
        for (serial, Again { bucket, name, id, key }) in again {
            self.slots.retire(key, id);
            if let Some(house) = self.buckets.get_mut(&bucket) {
                house.bucket.push_again(&NameKey::new(&name), vec![(id, serial)]);
            }
        }
        for lease in robbed {
            self.lose_lease(lease, Lost::Disconnected);
        }
        for lease in doubted {
            self.look_after(lease);
        }
    }

    /// Removes what a try that was given up has made after all, after its request was over.
    pub(super) fn remove_late(&mut self, bucket: u64, key: RequestKey, over: i64) {
        if self.slots.owner(key, i64::MAX) != Owner::Stray {
            return;
        }
        let Some(house) = self.buckets.get_mut(&bucket) else { return };
        let late = |&(_, _, entry): &(_, _, &Entry)| entry.request == key && entry.made > over;
        let late = house.bucket.mirror.entries().find(late);
        if let Some((name, ended)) = late.map(|(name, _, entry)| (name.clone(), entry.ended())) {
            house.bucket.push(name, Todo::Remove(ended, None));
        }
    }

    /// Lists a bucket.
    pub(super) fn look(&mut self, bucket: u64, delay: Duration) {
        let Some(house) = self.buckets.get_mut(&bucket) else { return };
        if std::mem::replace(&mut house.is_looking, true) {
            return;
        }
        house.looked = Moment::now();
        let prefix = house.bucket.keys.locks();
        let of = Listed::Bucket(bucket, house.watches);
        self.list(of, prefix, delay);
    }

    pub(super) fn list(&mut self, of: Listed, prefix: Vec<u8>, delay: Duration) {
        let known = self.history.known();
        self.calls.push_back(Call::List { of, known, prefix, delay });
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
            let found = self.buckets.values().find_map(|house| house.bucket.keys.parse(&kv.key));
            found.is_some_and(|key| self.slots.was_gone(key.request, kv.made, listed.revision))
        };
        if listed.found.iter().any(is_undone) {
            self.begin_anew(listed.cluster);
            return false;
        }
        true
    }

    pub(super) fn listed(&mut self, bucket: u64, watch: u64, result: Result<Listing, Failure>) {
        let Some(house) = self.buckets.get_mut(&bucket) else { return };
        if house.watches != watch {
            return;
        }
        house.is_looking = false;
        let Ok(listed) = result else {
            // What the watch tells is of no use without it.
            if house.bucket.early.is_some() {
                self.look(bucket, Duration::from_millis(200));
            }
            return;
        };
        let early = house.bucket.early.take();
        self.take_in(bucket, &listed);
        self.happened(bucket, early.unwrap_or_default());
        self.advance_recalls();
        self.advance_queries();
        self.forget(bucket);
    }

    /// Sets the mirror by a list, and what it says of ours.
    pub(super) fn take_in(&mut self, bucket: u64, listed: &Listing) {
        let left = self.left();
        let Some(house) = self.buckets.get_mut(&bucket) else { return };
        let keys = &house.bucket.keys;
        let events = listed.found.iter().filter_map(|kv| watch::read(keys, kv));
        house.bucket.mirror.reset(events, listed.revision);
        let revision = house.bucket.mirror.revision();

        let mut wakers = Vec::new();
        let mut table = self.shared.table();
        for (id, key, status) in table.of_bucket(bucket) {
            if self.gone.iter().any(|gone| gone.id == id) {
                continue;
            }
            let is_its = |made: &i64| self.slots.owner(key, *made) == Owner::Request(id);
            let (held, queued) = house.bucket.has(key);
            match (status, held.filter(is_its), queued.filter(is_its)) {
                (Status::Pending(_), Some(made), _) => {
                    wakers.extend(table.answer(id, State::Held(token(made), Vec::new())));
                }
                (Status::Pending(_), None, Some(made)) => table.queued(id, made),
                // Granted and taken again while nobody watched. Had its lease ended, that would be
                // told by whoever keeps it.
                (Status::Pending(since), None, None) if since > 0 && since <= revision => {
                    let how = house.bucket.mirror.why_gone(&table.name_of(id), token(since));
                    wakers.extend(table.answer(id, State::Lost(how)));
                }
                (Status::Held(since), None, _) if since <= token(revision) => {
                    let how = house.bucket.mirror.why_gone(&table.name_of(id), since);
                    wakers.extend(table.lose(id, how));
                }
                _ => {}
            }
        }
        // Of which nobody knows: what a try came to that was given up, be it our own or that of
        // whoever had a lease before us.
        let mut strays: Vec<(NameKey, Ended)> = Vec::new();
        for (name, phase, entry) in house.bucket.mirror.entries() {
            // What works under it may not have ended yet.
            if phase == Phase::Held && self.lapsing.contains_key(&entry.lease) {
                continue;
            }
            let only = match self.slots.owner(entry.request, entry.made) {
                Owner::Request(id) => match (table.status(id), phase) {
                    (Status::Held(_), Phase::Queued)
                        if house.bucket.has(entry.request).0.is_some() =>
                    {
                        Some(Phase::Queued)
                    }
                    (Status::Ended | Status::Absent, _) if house.bucket.is_idle(name) => None,
                    _ => continue,
                },
                Owner::Stray => None,
                Owner::Foreign if left.covers(entry.lease, &entry.value) => None,
                Owner::Foreign | Owner::Past => continue,
            };
            strays.push((name.clone(), Ended { only, ..entry.ended() }));
        }
        drop(table);
        wake(wakers);
        for (name, ended) in strays {
            house.bucket.push(name, Todo::Remove(ended, None));
        }
        self.step_waiting(bucket);
    }
}

/// Tells whose it is that somebody has removed it.
fn tell_removed(table: &mut Table, id: RequestId) -> Vec<Waker> {
    match table.status(id) {
        Status::Held(_) => table.lose(id, Lost::Removed),
        _ => table.answer(id, State::Failed(place_removed())).into_iter().collect(),
    }
}

/// Something of ours that has gone, be it with its lease or by itself.
#[derive(Debug)]
pub(super) struct Gone {
    pub(super) lease: i64,
    id: RequestId,
    /// The revision in which it went.
    revision: i64,
    /// When that was heard of.
    since: Moment,
}

/// What is to be done because something of ours is gone.
struct Fallout {
    /// Leases that have ended.
    robbed: Vec<i64>,
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
