//! The watches of names: one stream for all of them.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use navlock_etcd_client::{
    EventType, ResponseHeader, WatchAsk, WatchAsks, WatchOptions, WatchResponse, WatchStream,
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::{
    LOGS,
    data::KeyValue,
    keys::BucketKeys,
    members::{Member, Members},
    mirror::{Event, Put},
    strays,
};

/// How long between two tries to watch.
const PAUSE: Duration = Duration::from_millis(100);

/// What a watch tells.
#[derive(Debug)]
pub(crate) enum Watched {
    /// It tells of all that happens from now on. What was before is to be listed.
    ///
    /// Not from the revision of a list on: a watch that begins in the past is served every 100 ms
    /// only, until it has caught up.
    Up,
    /// What happened, whole revisions.
    Events(Vec<Event>),
}

/// What is to be watched.
pub(crate) enum Order {
    /// What begins so: from this revision on, without [`Watched::Up`], or else from now on.
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
    /// From which revision on, if it has not begun before.
    from: Option<i64>,
    /// What it is called on the stream, once that tells of it.
    id: Option<i64>,
}

impl Wanted {
    fn options(&self, watch: u64) -> WatchOptions {
        let options = WatchOptions::new().with_prefix().with_id(number(watch));
        match self.from {
            Some(from) => options.from_revision(from),
            None => options,
        }
    }

    /// What comes next begins in the dark.
    fn forget(&mut self) {
        (self.from, self.id) = (None, None);
    }
}

/// Watches what it is told to, by one stream, for as long as somebody can tell it. When the stream
/// ends (etcd restarts, has no leader, does not know us any more), another one begins, and each watch with
/// [`Watched::Up`]; so does a watch that etcd ends (it has compacted what was not told yet).
pub(crate) async fn watch(
    members: Members,
    orders: mpsc::UnboundedReceiver<Order>,
    patience: Duration,
    tell: impl Fn(u64, Watched),
) {
    let mut watching = Watching { orders, wanted: BTreeMap::new(), tell };
    while watching.until_wanted().await {
        let member = members.best(patience).await;
        if let Some(stream) = watching.open(&member, patience).await {
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
        // Also what was ordered meanwhile: its revision is of what etcd was before.
        while let Ok(order) = watching.orders.try_recv() {
            watching.note(order);
        }
        watching.wanted.values_mut().for_each(Wanted::forget);
        sleep(PAUSE).await;
    }
}

/// Why a stream is left.
enum End {
    /// Nothing is to be watched any more.
    Idle,
    /// There is a better member.
    Member,
    /// The stream has ended, or etcd does not serve us by it: it may not know any more who we are.
    Stream,
}

/// Something that etcd is to be asked by a stream.
enum Ask {
    Watch(u64),
    /// To end what it calls so.
    End(i64),
}

/// What was asked by a stream, and what is to be asked.
#[derive(Default)]
struct Asked {
    next: VecDeque<Ask>,
    /// What etcd has not answered yet, in the order in which it was asked.
    unanswered: VecDeque<u64>,
    /// Which watch is called so.
    ids: HashMap<i64, u64>,
    /// Whether each is called what we call it; `None` before the first answer. Etcd does that. Its proxy
    /// counts for itself, and answers in any order: it is asked for one at a time.
    is_ours_to_name: Option<bool>,
}

impl Asked {
    /// What is to be asked now.
    fn next(&mut self, wanted: &BTreeMap<u64, Wanted>) -> Option<WatchAsk> {
        loop {
            match *self.next.front()? {
                Ask::End(id) => return Some(WatchAsk::cancel(id)),
                Ask::Watch(watch) => {
                    if let Some(wanted) = wanted.get(&watch) {
                        let may_ask =
                            self.unanswered.is_empty() || self.is_ours_to_name == Some(true);
                        let ask = || WatchAsk::watch(&*wanted.prefix, wanted.options(watch));
                        return may_ask.then(ask);
                    }
                    // Not any more.
                    self.next.pop_front();
                }
            }
        }
    }

    /// That was asked.
    fn has_asked(&mut self) {
        if let Some(Ask::Watch(watch)) = self.next.pop_front() {
            self.unanswered.push_back(watch);
        }
    }

    /// Which watch is called so from now on; `None` if etcd has not begun what it was asked for.
    fn begun(&mut self, response: &WatchResponse) -> Option<u64> {
        let watch = self.unanswered.pop_front()?;
        let (id, ours) = (response.watch_id(), number(watch));
        let is_ours_to_name = *self.is_ours_to_name.get_or_insert(id == ours);
        let is_it = !response.canceled() && (id == ours || !is_ours_to_name);
        is_it.then(|| {
            self.ids.insert(id, watch);
            watch
        })
    }
}

/// What is to be watched, and who hears of it.
struct Watching<T> {
    orders: mpsc::UnboundedReceiver<Order>,
    wanted: BTreeMap<u64, Wanted>,
    tell: T,
}

impl<T: Fn(u64, Watched)> Watching<T> {
    /// Waits until there is something to watch. Whether there is anybody to order it.
    async fn until_wanted(&mut self) -> bool {
        while self.wanted.is_empty() {
            let Some(order) = self.orders.recv().await else { return false };
            self.note(order);
        }
        true
    }

    /// Takes an order in. What etcd is to be asked, if it was asked before about that.
    fn note(&mut self, order: Order) -> Option<Ask> {
        match order {
            Order::Watch { watch, keys, prefix, from } => {
                self.wanted.insert(watch, Wanted { keys, prefix, from, id: None });
                Some(Ask::Watch(watch))
            }
            Order::Unwatch(watch) => Some(Ask::End(self.wanted.remove(&watch)?.id?)),
        }
    }

    /// A stream, with the first of the watches.
    async fn open(&mut self, member: &Member, patience: Duration) -> Option<WatchStream> {
        let mut client = member.client.clone();
        let (&watch, wanted) = self.wanted.first_key_value()?;
        let opened = client.watch(&*wanted.prefix, Some(wanted.options(watch)));
        timeout(patience, opened).await.ok()?.ok()
    }

    /// Watches by this stream.
    async fn serve(&mut self, mut stream: WatchStream) -> End {
        let asks = stream.asks();
        let mut asked = Asked {
            next: self.wanted.keys().map(|&watch| Ask::Watch(watch)).collect(),
            ..Asked::default()
        };
        // When it was opened.
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

    /// Takes in what etcd tells of a watch. Whether it goes on with what it was asked for.
    fn heard(&mut self, response: &WatchResponse, asked: &mut Asked) -> bool {
        let id = response.watch_id();
        if response.created() {
            let Some(watch) = asked.begun(response) else {
                tracing::debug!(target: LOGS, "etcd refuses to tell of a name by this stream");
                return false;
            };
            let Some(wanted) = self.wanted.get_mut(&watch) else {
                // Nobody wants it any more.
                asked.ids.remove(&id);
                asked.next.push_back(Ask::End(id));
                return true;
            };
            wanted.id = Some(id);
            let revision = response.header().map_or(0, ResponseHeader::revision);
            // Etcd may have gone back since, or this member may be behind.
            if wanted.from.is_none_or(|from| revision < from - 1) {
                (self.tell)(watch, Watched::Up);
            }
        }
        // Or it was ended by us.
        let Some(&watch) = asked.ids.get(&id) else { return true };
        let Some(wanted) = self.wanted.get_mut(&watch) else { return true };
        if response.canceled() {
            wanted.forget();
            asked.ids.remove(&id);
            asked.next.push_back(Ask::Watch(watch));
            return true;
        }
        let events = response.events().iter().filter_map(|event| {
            let kv: KeyValue = event.kv()?.clone().into();
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

/// Asks this, if there is anything to ask.
async fn ask(
    asks: &WatchAsks,
    next: Option<WatchAsk>,
) -> Option<Result<(), navlock_etcd_client::Error>> {
    Some(asks.ask(next?).await)
}

/// What a watch is to be called on its stream. They are counted from 1 on.
fn number(watch: u64) -> i64 {
    i64::try_from(watch).unwrap_or(i64::MAX)
}

/// What a key says that is there; `None` if it is none of ours.
///
/// What somebody else has written there is as good as gone: it is no lock any more, though it stands
/// in the way of some. See [`strays`](crate::strays).
pub(crate) fn read(keys: &BucketKeys, kv: &KeyValue) -> Option<Event> {
    let key = keys.parse(&kv.key)?;
    let is_ours = strays::of_bucket(keys, kv).is_none();
    let put = || Put { made: kv.made, lease: kv.lease, value: Arc::from(&*kv.value) };
    Some(Event { key, revision: kv.written, put: is_ours.then(put) })
}
