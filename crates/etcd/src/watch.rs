//! The watches of names: one stream for all of them.

use std::{
    collections::{BTreeMap, VecDeque},
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
}

impl Wanted {
    fn options(&self, watch: u64) -> WatchOptions {
        let options = WatchOptions::new().with_prefix().with_id(number(watch));
        match self.from {
            Some(from) => options.from_revision(from),
            None => options,
        }
    }
}

/// Watches what it is told to, by one stream, for as long as somebody can tell it. When the stream
/// ends (etcd restarts, has no leader), or etcd ends a watch of it (it has compacted what was not
/// told yet), another one begins, and each watch with [`Watched::Up`].
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
                () = members.changed(member.term) => End::Watch,
            };
            match end {
                End::Idle => continue,
                End::Stream => members.avoid(member.term),
                End::Watch => {}
            }
        } else {
            members.avoid(member.term);
        }
        // What comes next begins in the dark.
        watching.wanted.values_mut().for_each(|wanted| wanted.from = None);
        sleep(PAUSE).await;
    }
}

/// Why a stream is left.
enum End {
    /// Nothing is to be watched any more.
    Idle,
    /// Etcd has ended a watch, or there is a better member.
    Watch,
    /// The stream has ended.
    Stream,
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

    /// Takes an order in. What etcd is to be asked.
    fn note(&mut self, order: Order) -> WatchAsk {
        match order {
            Order::Watch { watch, keys, prefix, from } => {
                let wanted = Wanted { keys, prefix, from };
                let ask = WatchAsk::watch(&*wanted.prefix, wanted.options(watch));
                self.wanted.insert(watch, wanted);
                ask
            }
            Order::Unwatch(watch) => {
                self.wanted.remove(&watch);
                WatchAsk::cancel(number(watch))
            }
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
        let others = self.wanted.iter().skip(1);
        let mut asked: VecDeque<WatchAsk> = others
            .map(|(&watch, wanted)| WatchAsk::watch(&*wanted.prefix, wanted.options(watch)))
            .collect();
        loop {
            tokio::select! {
                response = stream.message() => {
                    let Ok(Some(response)) = response else { return End::Stream };
                    if !self.heard(&response) {
                        return End::Watch;
                    }
                }
                Some(is_asked) = ask_next(&asks, asked.front()) => {
                    if is_asked.is_err() {
                        return End::Stream;
                    }
                    asked.pop_front();
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
                        asked.push_back(ask);
                    }
                },
            }
        }
    }

    /// Takes in what etcd tells of a watch. Whether it goes on.
    fn heard(&mut self, response: &WatchResponse) -> bool {
        let watch = u64::try_from(response.watch_id()).unwrap_or_default();
        // It was ended by us.
        let Some(wanted) = self.wanted.get_mut(&watch) else { return true };
        if response.canceled() {
            return false;
        }
        if response.created() {
            let revision = response.header().map_or(0, ResponseHeader::revision);
            // Etcd may have gone back since, or this member may be behind.
            if wanted.from.is_none_or(|from| revision < from - 1) {
                (self.tell)(watch, Watched::Up);
            }
        }
        let events = response.events().iter().filter_map(|event| {
            let told = read(&wanted.keys, &event.kv()?.clone().into())?;
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
async fn ask_next(
    asks: &WatchAsks,
    next: Option<&WatchAsk>,
) -> Option<Result<(), navlock_etcd_client::Error>> {
    Some(asks.ask(next?.clone()).await)
}

/// What a watch is called on its stream. They are counted from 1 on.
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
