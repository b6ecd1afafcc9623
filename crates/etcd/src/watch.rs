//! The watches of names: one stream for all of them.

mod asked;
mod check;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use navlock_etcd_client::{EventType, WatchAsk, WatchAsks, WatchResponse, WatchStream};
use tokio::{sync::mpsc, time::sleep};

pub(crate) use self::check::Check;
use self::{
    asked::{Ask, Asked, Wanted},
    check::CHECK,
};
use crate::{
    LOGS,
    calls::{convert::key_value, failures::is_end},
    load::about,
    members::{Member, Members},
    watched::{self, Event, Order, Watched},
};

/// The pause before a stream is opened again.
const PAUSE: Duration = Duration::from_millis(100);

/// Watches what it is ordered to watch, through one stream, as long as somebody can send orders.
/// When the stream ends (etcd restarts, has no leader, or does not know us any more), another one
/// begins, and each watch goes on from what it has told. A watch whose next events etcd has compacted
/// begins anew with [`Watched::Up`], and so do all watches if etcd has lost its data.
pub(crate) async fn watch(
    members: &Members,
    orders: mpsc::UnboundedReceiver<Order>,
    check: Check,
    tell: impl Fn(u64, Watched),
) {
    let timeout = members.call_timeout();
    let (check, wanted, seen) = (Arc::new(check), BTreeMap::new(), Seen::default());
    let mut watching =
        Watching { orders, check: Arc::clone(&check), wanted, seen, goes_on: false, tell };
    while watching.until_wanted().await {
        let member = members.best(timeout).await;
        let late = async {
            sleep(timeout).await;
            members.until_left(member.generation, timeout).await;
        };
        let opened = tokio::select! {
            opened = watching.open(members, &member) => opened,
            () = late => None,
        };
        if let Some(stream) = opened {
            tracing::debug!(target: LOGS, names = watching.wanted.len(), "names are watched");
            let asks = stream.asks();
            let end = tokio::select! {
                end = watching.serve(stream) => end,
                () = members.changed(member.generation) => End::Member,
                () = check.until_hung(members, &member, &asks, timeout) => End::Stream,
            };
            watching.goes_on = !matches!(end, End::Idle);
            match end {
                End::Idle => continue,
                End::Stream => members.doubt(member.generation),
                End::Connection => members.avoid(member.generation),
                End::Member => {}
            }
        } else {
            members.doubt(member.generation);
        }
        sleep(about(PAUSE)).await;
    }
}

/// Why a stream is left.
enum End {
    /// There is nothing to watch any more.
    Idle,
    /// Another member is used now.
    Member,
    /// The connection has failed.
    Connection,
    /// The stream has ended, or etcd does not serve us through it, perhaps because it has forgotten
    /// our login.
    Stream,
}

/// The etcd that is watched, as far as it was heard of.
#[derive(Clone, Copy, Default)]
struct Seen {
    cluster: u64,
    revision: i64,
}

/// All watches that are wanted, and the channel for their reports.
struct Watching<T> {
    orders: mpsc::UnboundedReceiver<Order>,
    check: Arc<Check>,
    wanted: BTreeMap<u64, Wanted>,
    seen: Seen,
    /// Whether the watches were interrupted.
    goes_on: bool,
    tell: T,
}

impl<T: Fn(u64, Watched)> Watching<T> {
    /// Waits until there is something to watch. Returns whether anybody can still send orders.
    async fn until_wanted(&mut self) -> bool {
        while self.wanted.is_empty() {
            let Some(order) = self.orders.recv().await else { return false };
            self.note(order);
        }
        true
    }

    /// Takes in an order. Returns what to ask etcd, if the watch was asked for before.
    fn note(&mut self, order: Order) -> Option<Ask> {
        match order {
            Order::Watch { watch, keys, prefix, from } => {
                let told = from.map(|from| from - 1);
                self.wanted.insert(watch, Wanted { keys, prefix, told, goes_on: false, id: None });
                Some(Ask::Watch(watch))
            }
            Order::Unwatch(watch) => Some(Ask::End(self.wanted.remove(&watch)?.id?)),
        }
    }

    /// Opens a stream, with the first of the watches.
    async fn open(&mut self, members: &Members, member: &Member) -> Option<WatchStream> {
        // From here on, the member has everything that others have heard of.
        let there = members.first_key(member).await.ok()?;
        let is_another = self.seen.cluster != 0 && self.seen.cluster != there.cluster_id;
        // What a proxy says of revisions may be about the watches of others.
        if is_another || there.revision < self.seen.revision || self.check.is_proxied() {
            self.wanted.values_mut().for_each(Wanted::forget);
        }
        self.seen = Seen { cluster: there.cluster_id, revision: there.revision };
        for wanted in self.wanted.values_mut() {
            (wanted.goes_on, wanted.id) = (self.goes_on, None);
        }
        let mut client = member.client.clone();
        let (&watch, wanted) = self.wanted.first_key_value()?;
        let opened = client.watch(wanted.asked(watch)).await.ok()?;
        if std::mem::take(&mut self.goes_on) {
            (self.tell)(watch, Watched::GoOn);
        }
        Some(opened)
    }

    /// Serves the watches through this stream.
    async fn serve(&mut self, mut stream: WatchStream) -> End {
        let asks = stream.asks();
        let mut asked = Asked::new(self.wanted.keys().copied());
        // The first watch was asked for when the stream was opened.
        asked.has_asked(self.seen.revision);
        loop {
            let next = asked.next(&self.wanted);
            tokio::select! {
                response = stream.message() => {
                    let response = match response {
                        Ok(Some(response)) => response,
                        Err(error) if is_end(&error) => return End::Connection,
                        Ok(None) | Err(_) => return End::Stream,
                    };
                    if !self.heard(&response, &mut asked) {
                        return End::Stream;
                    }
                }
                Some(is_asked) = ask(&asks, next) => {
                    if is_asked.is_err() {
                        return End::Stream;
                    }
                    asked.has_asked(self.seen.revision);
                }
                order = self.orders.recv() => match order {
                    None => {
                        self.wanted.clear();
                        return End::Idle;
                    }
                    Some(order) => {
                        let ask = self.note(order);
                        if self.wanted.is_empty() {
                            return End::Idle;
                        }
                        if let Some(Ask::End(id)) = ask {
                            asked.ids.remove(&id);
                        }
                        asked.next.extend(ask);
                    }
                },
            }
        }
    }

    /// Takes in a response of etcd. Returns whether etcd does what it was asked to do.
    fn heard(&mut self, response: &WatchResponse, asked: &mut Asked) -> bool {
        let (id, header) = (response.watch_id, response.header.unwrap_or_default());
        if id == CHECK {
            self.check.note_answer();
            asked.next.extend((!response.canceled).then_some(Ask::End(CHECK)));
            return true;
        }
        if response.created {
            let begun = asked.begun(response);
            self.check.note_proxied(asked.is_ours_to_name == Some(false));
            let Some((watch, seen)) = begun else {
                tracing::debug!(target: LOGS, "etcd refuses to tell of a name by this stream");
                return false;
            };
            let Some(wanted) = self.wanted.get_mut(&watch) else {
                // The watch is not wanted any more.
                asked.ids.remove(&id);
                asked.next.push_back(Ask::End(id));
                return true;
            };
            wanted.id = Some(id);
            // Etcd may have been restored to an older state, or this member may be behind.
            if wanted.told.is_none_or(|told| header.revision < told) {
                (self.tell)(watch, Watched::Up);
            }
            if asked.is_ours_to_name == Some(true) {
                self.seen.revision = self.seen.revision.max(header.revision);
                // The answer may have a later revision than the first that the watch tells of.
                wanted.told.get_or_insert(seen);
            }
        }
        // We have ended this watch ourselves.
        let Some(&watch) = asked.ids.get(&id) else { return true };
        let Some(wanted) = self.wanted.get_mut(&watch) else { return true };
        if response.canceled {
            wanted.forget();
            asked.ids.remove(&id);
            asked.next.push_back(Ask::Watch(watch));
            return true;
        }
        let events = response.events.iter().filter_map(|event| {
            let kv = key_value(event.kv.clone()?);
            let told =
                watched::read(&wanted.keys, &kv).filter(|_| kv.key.starts_with(&wanted.prefix))?;
            Some(match event.event_type() {
                EventType::Put => told,
                EventType::Delete => Event { put: None, ..told },
            })
        });
        // A member that was behind may tell of events from before the watch.
        let is_new = |event: &Event| wanted.told.is_none_or(|told| event.revision > told);
        let events: Vec<_> = events.filter(is_new).collect();
        if asked.is_ours_to_name == Some(true) && !response.created {
            // Of progress there are no events. While a watch catches up, its events are older than the
            // revision of the response.
            let last = events.iter().map(|event| event.revision).max();
            let is_progress = response.events.is_empty();
            wanted.told = wanted.told.max(last.or(is_progress.then_some(header.revision)));
        }
        if !events.is_empty() {
            (self.tell)(watch, Watched::Events(events));
        }
        true
    }
}

/// Sends this request to etcd, if there is one.
async fn ask(
    asks: &WatchAsks,
    next: Option<WatchAsk>,
) -> Option<Result<(), navlock_etcd_client::Error>> {
    Some(asks.ask(next?).await)
}
