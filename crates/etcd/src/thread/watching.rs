//! What watches and lists say, and what it means for ours.

use std::time::Duration;

use etcd_client::GetResponse;
use futures_util::FutureExt;
use navlock_core::{Lost, Mode};
use tokio::time::Instant;

use super::{Done, Keeper, Message, wake};
use crate::{
    bucket::Todo,
    calls::{self, Failure, lease_lost},
    keys::{NameKey, Phase, RequestKey},
    mirror::Event,
    query::token,
    table::{State, Status},
    watch::{self, Watched},
};

impl Keeper {
    /// Begins to watch a bucket, if it is not watched yet.
    pub(super) fn watch(&mut self, bucket: u64) {
        let Some(house) = self.buckets.get_mut(&bucket) else { return };
        if house.watch.is_some() {
            return;
        }
        let client = self.client.watch_client().max_decoding_message_size(usize::MAX);
        let tell = self.tell.clone();
        let watch =
            watch::watch(client, house.bucket.keys.clone(), self.options.call(), move |watched| {
                if let Some(tell) = tell.upgrade() {
                    let _ = tell.send(Message::Watched { bucket, watched });
                }
            });
        house.watch = Some(tokio::spawn(watch));
    }

    pub(super) fn watched(&mut self, bucket: u64, watched: Watched) {
        let Some(house) = self.buckets.get_mut(&bucket) else { return };
        match watched {
            Watched::Up => {
                house.bucket.early = Some(Vec::new());
                house.is_looking = false;
                self.look(bucket, Duration::ZERO);
            }
            Watched::Events(events) => match &mut house.bucket.early {
                Some(early) => early.extend(events),
                None => self.happened(bucket, events),
            },
        }
    }

    /// Takes in what the watch tells.
    fn happened(&mut self, bucket: u64, events: Vec<Event>) {
        let Some(house) = self.buckets.get_mut(&bucket) else { return };
        let (mut touched, mut gone, mut wakers) = (Vec::new(), Vec::new(), Vec::new());
        let mut table = self.shared.table();
        for event in events {
            let Event { key, revision, .. } = event.clone();
            let made = event.put.as_ref().map(|put| put.made);
            if !house.bucket.mirror.apply(event) {
                continue;
            }
            if touched.last() != Some(&key.name) {
                touched.push(key.name.clone());
            }
            if key.request.owner != self.owner {
                continue;
            }
            match (made, key.phase) {
                (Some(made), Phase::Held) => {
                    let granted = State::Held(token(made), Vec::new());
                    wakers.extend(table.answer(key.request.id(), granted));
                }
                (Some(made), Phase::Queued) => table.queued(key.request.id(), made),
                (None, _) => gone.push((key, revision)),
            }
        }
        let mut robbed = Vec::new();
        for (key, revision) in gone {
            let (id, mirror) = (key.request.id(), &house.bucket.mirror);
            match (key.phase, table.status(id)) {
                (Phase::Held, Status::Held(_)) => {
                    let is_stolen = mirror.was_stolen(&key.name, revision);
                    if is_stolen {
                        wakers.extend(table.lose(id, Lost::Stolen));
                    } else {
                        robbed.extend(table.agent_of(id));
                        wakers.extend(table.lose(id, Lost::Disconnected));
                    }
                }
                // Not when it became a lock, which was told with it.
                (Phase::Queued, Status::Pending(_)) => {
                    robbed.extend(table.agent_of(id));
                    wakers.extend(table.answer(id, State::Failed(lease_lost())));
                }
                _ => {}
            }
        }
        drop(table);
        wake(wakers);
        // What went without a thief went with its lease.
        for agent in robbed {
            self.lose(agent);
        }
        for name in touched {
            self.step(bucket, &name);
        }
    }

    /// Lists a bucket.
    pub(super) fn look(&mut self, bucket: u64, delay: Duration) {
        let Some(house) = self.buckets.get_mut(&bucket) else { return };
        if std::mem::replace(&mut house.is_looking, true) {
            return;
        }
        house.looked = Instant::now();
        let prefix = house.bucket.keys.locks();
        let list = calls::list(self.kv.clone(), prefix, delay, self.options.call());
        self.running.push(list.map(move |result| Done::Listed { bucket, result }).boxed());
    }

    pub(super) fn listed(&mut self, bucket: u64, result: Result<GetResponse, Failure>) {
        let Some(house) = self.buckets.get_mut(&bucket) else { return };
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
        self.advance_queries();
        self.forget(bucket);
    }

    /// Sets the mirror by a list, and what it says of ours.
    pub(super) fn take_in(&mut self, bucket: u64, listed: &GetResponse) {
        let Some(house) = self.buckets.get_mut(&bucket) else { return };
        let keys = &house.bucket.keys;
        let events = listed.kvs().iter().filter_map(|kv| watch::read(keys, kv, true));
        let revision = listed.header().map_or(0, etcd_client::ResponseHeader::revision);
        house.bucket.mirror.reset(events, revision);
        let revision = house.bucket.mirror.revision();

        let mut wakers = Vec::new();
        let mut table = self.shared.table();
        for (id, _, status) in table.of_bucket(bucket) {
            let (held, queued) = house.bucket.has(RequestKey::new(self.owner, id));
            match (status, held, queued) {
                (Status::Pending(_), Some(made), _) => {
                    wakers.extend(table.answer(id, State::Held(token(made), Vec::new())));
                }
                (Status::Pending(_), None, Some(made)) => table.queued(id, made),
                // Granted and taken again while nobody watched. Had its lease ended, that would be
                // told by whoever keeps it.
                (Status::Pending(since), None, None) if since > 0 && since <= revision => {
                    wakers.extend(table.answer(id, State::Lost(Lost::Stolen)));
                }
                (Status::Held(since), None, _) if since <= token(revision) => {
                    wakers.extend(table.lose(id, Lost::Stolen));
                }
                _ => {}
            }
        }
        // Of which nobody knows: what a try came to that was given up.
        let mut strays: Vec<(NameKey, RequestKey, Mode)> = Vec::new();
        for (name, _, entry) in house.bucket.mirror.of_owner(self.owner) {
            let status = table.status(entry.request.id());
            let is_known = matches!(status, Status::Pending(_) | Status::Held(_));
            if !is_known && house.bucket.is_idle(&name) {
                strays.push((name, entry.request, entry.mode));
            }
        }
        drop(table);
        wake(wakers);
        for (name, request, mode) in strays {
            let remove = Todo::Remove { request, mode, was_held: false };
            house.bucket.push(name, remove);
        }
        let mut names = house.bucket.mirror.waiting(self.owner);
        names.extend(house.bucket.names());
        for name in names {
            self.step(bucket, &name);
        }
    }
}
