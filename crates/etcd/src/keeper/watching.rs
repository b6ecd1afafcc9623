//! What watches and lists say, and what it means for ours.

use std::{collections::HashMap, time::Duration};

use navlock_core::{Lost, Mode};
use navlock_engine::RequestId;

use super::{AgentSerial, Call, Keeper, Listed, agents::Agent, history::Known, wake};
use crate::{
    bucket::Todo,
    clock::Moment,
    data::{KeyValue, Listing},
    failure::{Failure, place_removed},
    hash::HashState,
    keys::{NameKey, Phase, RequestKey},
    mirror::{Entry, Event},
    query::token,
    slots::Owner,
    table::{State, Status, Table},
    transactions::Ended,
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
        let Some(house) = self.buckets.get_mut(&bucket) else { return };
        let (mut touched, mut gone, mut wakers) = (Vec::new(), Vec::new(), Vec::new());
        let (mut strays, leases) = (Vec::new(), &self.recalled);
        let mut doubted = Vec::new();
        // Whoever steals puts its own in the revision in which it takes the others'.
        let steals = |event: &Event| {
            let is_lock = event.key.phase == Phase::Held && event.key.mode == Mode::Exclusive;
            let is_new = event.put.as_ref().is_some_and(|put| put.made == event.revision);
            (is_lock && is_new).then(|| (event.key.name.clone(), event.revision))
        };
        let thefts: Vec<_> = events.iter().filter_map(steals).collect();
        let mut table = self.shared.table();
        for event in events {
            let Event { key, revision, .. } = event.clone();
            let made = event.put.as_ref().map(|put| put.made);
            let lease = event.put.as_ref().map(|put| put.lease);
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
                Owner::Foreign if lease.is_some_and(|lease| leases.contains(&lease)) => {
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
        let (mut robbed, mut removed) = (Vec::new(), Vec::new());
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
        let counts = gone_together(&mut table, &removed);
        for &(id, revision) in &removed {
            // Those of an agent that has lost all end with it.
            let serial = table.agent_of(id).filter(|serial| !robbed.contains(serial));
            let Some(serial) = serial else { continue };
            let count = counts.get(&(serial, revision)).copied().unwrap_or_default();
            let lease = self.agents.get(&serial).and_then(Agent::lease_id);
            let is_left = || house.bucket.mirror.entries().any(|(.., of)| Some(of.lease) == lease);
            let status = table.status(id);
            // Several at once, and all there was: they have gone with their lease. Who waits for
            // nothing else asks again, whatever it was.
            if (count > 1 || matches!(status, Status::Pending(_))) && !is_left() {
                robbed.push(serial);
                continue;
            }
            match status {
                Status::Held(_) => wakers.extend(table.lose(id, Lost::Removed)),
                _ => wakers.extend(table.answer(id, State::Failed(place_removed()))),
            }
            // It may be its lease that has gone, if this was all there was under it.
            doubted.extend(lease.map(|lease| (serial, lease)));
        }
        drop(table);
        wake(wakers);
        // What came of a try that was given up.
        if let Some(house) = self.buckets.get_mut(&bucket) {
            for (key, only) in strays {
                let ended = Ended { id: None, request: key.request, mode: key.mode, only };
                house.bucket.push(key.name, Todo::Remove(ended, None));
            }
        }
        for agent in robbed {
            self.lose(agent, Lost::Disconnected);
        }
        for (serial, lease) in doubted {
            self.look_after(serial, lease);
        }
        for name in touched {
            self.step(bucket, &name);
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
        let Some(house) = self.buckets.get_mut(&bucket) else { return };
        let keys = &house.bucket.keys;
        let events = listed.found.iter().filter_map(|kv| watch::read(keys, kv));
        house.bucket.mirror.reset(events, listed.revision);
        let revision = house.bucket.mirror.revision();

        let mut wakers = Vec::new();
        let mut table = self.shared.table();
        for (id, key, status) in table.of_bucket(bucket) {
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
                Owner::Foreign if self.recalled.contains(&entry.lease) => None,
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

/// How many of these each agent has lost in each revision.
fn gone_together(
    table: &mut Table,
    removed: &[(RequestId, i64)],
) -> HashMap<(AgentSerial, i64), usize, HashState> {
    let mut counts = HashMap::default();
    for &(id, revision) in removed {
        if let Some(serial) = table.agent_of(id) {
            *counts.entry((serial, revision)).or_default() += 1;
        }
    }
    counts
}
