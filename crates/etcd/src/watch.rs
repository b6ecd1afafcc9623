//! The watches of names: one stream for all of them.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use navlock_etcd_client::{
    EventType, WatchAsk, WatchAsks, WatchCreateRequest, WatchResponse, WatchStream,
};
use tokio::{
    sync::mpsc,
    time::{self, sleep},
};

use crate::{
    LOGS,
    data::KeyValue,
    keys::BucketKeys,
    members::{Member, Members},
    mirror::{Event, Put},
    strays,
};

/// The pause before a stream is opened again.
const PAUSE: Duration = Duration::from_millis(100);

/// What a watch reports.
#[derive(Debug)]
pub(crate) enum Watched {
    /// The watch reports all events from now on. What was there before has to be listed.
    ///
    /// A watch does not begin at the revision of an earlier list, because etcd serves a watch that
    /// begins in the past only every 100 ms, until the watch has caught up.
    Up,
    /// The watch reports these events, of whole revisions.
    Events(Vec<Event>),
}

/// An order to watch, or to stop watching.
pub(crate) enum Order {
    /// Watches the keys with this prefix: from this revision on, without [`Watched::Up`], or else
    /// from now on.
    Watch {
        watch: u64,
        keys: BucketKeys,
        prefix: Vec<u8>,
        from: Option<i64>,
    },
    Unwatch(u64),
}

/// A watch that was ordered.
struct Wanted {
    keys: BucketKeys,
    prefix: Vec<u8>,
    /// The revision at which the watch begins, if it has not begun before.
    from: Option<i64>,
    /// The watch's id on the stream, if etcd has told it.
    id: Option<i64>,
}

impl Wanted {
    fn asked(&self, watch: u64) -> WatchCreateRequest {
        let (id, start) = (number(watch), self.from.unwrap_or_default());
        WatchCreateRequest { id, start, ..WatchCreateRequest::prefix(&*self.prefix) }
    }

    /// Notes that the next stream begins this watch at that time. What happens before that is
    /// unknown.
    fn forget(&mut self) {
        (self.from, self.id) = (None, None);
    }
}

/// Watches what it is ordered to watch, through one stream, as long as somebody can send orders.
/// When the stream ends (etcd restarts, has no leader, or does not know us any more), another one
/// begins, and each watch begins anew with [`Watched::Up`]. A watch that etcd ends, because it has
/// compacted events that were not sent yet, also begins anew.
pub(crate) async fn watch(
    members: Members,
    orders: mpsc::UnboundedReceiver<Order>,
    timeout: Duration,
    tell: impl Fn(u64, Watched),
) {
    let mut watching = Watching { orders, wanted: BTreeMap::new(), tell };
    while watching.until_wanted().await {
        let member = members.best(timeout).await;
        if let Some(stream) = watching.open(&member, timeout).await {
            tracing::debug!(target: LOGS, names = watching.wanted.len(), "names are watched");
            let end = tokio::select! {
                end = watching.serve(stream) => end,
                () = members.changed(member.generation) => End::Member,
            };
            match end {
                End::Idle => continue,
                End::Stream => members.avoid(member.generation),
                End::Member => {}
            }
        } else {
            members.avoid(member.generation);
        }
        // This includes watches that were ordered meanwhile, because their revisions are from
        // before the change.
        while let Ok(order) = watching.orders.try_recv() {
            watching.note(order);
        }
        watching.wanted.values_mut().for_each(Wanted::forget);
        sleep(PAUSE).await;
    }
}

/// Why a stream is left.
enum End {
    /// There is nothing to watch any more.
    Idle,
    /// Another member is used now.
    Member,
    /// The stream has ended, or etcd does not serve us through it, perhaps because it has forgotten
    /// our login.
    Stream,
}

/// A request to etcd on the stream.
enum Ask {
    Watch(u64),
    /// Ends the watch with this id.
    End(i64),
}

/// The watches that were asked for on a stream, and the watches that have still to be asked for.
#[derive(Default)]
struct Asked {
    next: VecDeque<Ask>,
    /// The watches for which etcd has not answered yet, in the order in which they were asked for.
    unanswered: VecDeque<u64>,
    /// The watches by their ids on the stream.
    ids: HashMap<i64, u64>,
    /// Whether watches get the ids that we propose; `None` before the first answer. Etcd takes these
    /// ids. Etcd's proxy makes ids of its own, and answers in any order, so it is asked for one watch at
    /// a time.
    is_ours_to_name: Option<bool>,
}

impl Asked {
    /// The next watch to ask for, if a watch may be asked for now.
    fn next(&mut self, wanted: &BTreeMap<u64, Wanted>) -> Option<WatchAsk> {
        loop {
            match *self.next.front()? {
                Ask::End(id) => return Some(WatchAsk::cancel(id)),
                Ask::Watch(watch) => {
                    if let Some(wanted) = wanted.get(&watch) {
                        let may_ask =
                            self.unanswered.is_empty() || self.is_ours_to_name == Some(true);
                        let ask = || WatchAsk::watch(wanted.asked(watch));
                        return may_ask.then(ask);
                    }
                    // This watch is not wanted any more.
                    self.next.pop_front();
                }
            }
        }
    }

    /// Notes that the next watch was asked for.
    fn has_asked(&mut self) {
        if let Some(Ask::Watch(watch)) = self.next.pop_front() {
            self.unanswered.push_back(watch);
        }
    }

    /// Takes in an answer. Returns the watch that has begun; `None` if etcd has not begun it.
    fn begun(&mut self, response: &WatchResponse) -> Option<u64> {
        let watch = self.unanswered.pop_front()?;
        let (id, ours) = (response.watch_id, number(watch));
        let is_ours_to_name = *self.is_ours_to_name.get_or_insert(id == ours);
        let is_it = !response.canceled && (id == ours || !is_ours_to_name);
        is_it.then(|| {
            self.ids.insert(id, watch);
            watch
        })
    }
}

/// All watches that are wanted, and the channel for their reports.
struct Watching<T> {
    orders: mpsc::UnboundedReceiver<Order>,
    wanted: BTreeMap<u64, Wanted>,
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
                self.wanted.insert(watch, Wanted { keys, prefix, from, id: None });
                Some(Ask::Watch(watch))
            }
            Order::Unwatch(watch) => Some(Ask::End(self.wanted.remove(&watch)?.id?)),
        }
    }

    /// Opens a stream, with the first of the watches.
    async fn open(&mut self, member: &Member, timeout: Duration) -> Option<WatchStream> {
        let mut client = member.client.clone();
        let (&watch, wanted) = self.wanted.first_key_value()?;
        let opened = client.watch(wanted.asked(watch));
        time::timeout(timeout, opened).await.ok()?.ok()
    }

    /// Serves the watches through this stream.
    async fn serve(&mut self, mut stream: WatchStream) -> End {
        let asks = stream.asks();
        let mut asked = Asked {
            next: self.wanted.keys().map(|&watch| Ask::Watch(watch)).collect(),
            ..Asked::default()
        };
        // The first watch was asked for when the stream was opened.
        asked.has_asked();
        loop {
            let next = asked.next(&self.wanted);
            tokio::select! {
                response = stream.message() => {
                    let Ok(Some(response)) = response else { return End::Stream };
                    if !self.heard(&response, &mut asked) {
                        return End::Stream;
                    }
                }
                Some(is_asked) = ask(&asks, next) => {
                    if is_asked.is_err() {
                        return End::Stream;
                    }
                    asked.has_asked();
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
        let id = response.watch_id;
        if response.created {
            let Some(watch) = asked.begun(response) else {
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
            let revision = response.header.unwrap_or_default().revision;
            // Etcd may have been restored to an older state, or this member may be behind.
            if wanted.from.is_none_or(|from| revision < from - 1) {
                (self.tell)(watch, Watched::Up);
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
            let kv: KeyValue = event.kv.clone()?;
            let told = read(&wanted.keys, &kv).filter(|_| kv.key.starts_with(&wanted.prefix))?;
            Some(match event.event_type() {
                EventType::Put => told,
                EventType::Delete => Event { put: None, ..told },
            })
        });
        let events: Vec<_> = events.collect();
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

/// The id that we propose for a watch on its stream. Watches are counted from 1 on.
fn number(watch: u64) -> i64 {
    i64::try_from(watch).unwrap_or(i64::MAX)
}

/// Reads a key that exists, as an event; `None` if navlock has not written the key.
///
/// A key that another program has overwritten counts as deleted. It is no lock any more, although it
/// blocks requests. See [`strays`](crate::strays).
pub(crate) fn read(keys: &BucketKeys, kv: &KeyValue) -> Option<Event> {
    let key = keys.parse(&kv.key)?;
    let is_ours = strays::of_bucket(keys, kv).is_none();
    let put = || Put { made: kv.made, lease: kv.lease, value: Arc::from(&*kv.value) };
    Some(Event { key, revision: kv.written, put: is_ours.then(put) })
}
