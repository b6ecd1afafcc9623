//! What watches of names tell, and how they are ordered.

use std::sync::Arc;

use crate::{
    data::KeyValue,
    keys::{BucketKeys, LockKey},
    strays,
};

/// A key that was put or deleted.
#[derive(Clone, Debug)]
pub struct Event {
    /// The key.
    pub key: LockKey,
    /// The revision of the event.
    pub revision: i64,
    /// `None` if it was deleted.
    pub put: Option<Put>,
}

/// A key that was put.
#[derive(Clone, Debug)]
pub struct Put {
    /// The revision that created the key, which may be earlier than the revision of this put.
    pub made: i64,
    /// The lease with which it ends.
    pub lease: i64,
    /// The value.
    pub value: Arc<[u8]>,
}

/// What a watch reports.
#[derive(Debug)]
pub enum Watched {
    /// The watch reports all events from now on. What was there before has to be listed.
    ///
    /// Such a watch does not begin at the revision of an earlier list: to tell of the past may cost a store
    /// more. See [`Order::Watch`] for one that does.
    Up,
    /// The watch reports these events, of whole revisions, in their order.
    Events(Vec<Event>),
    /// All watches go on from what they have told, through another stream. If the store has been restored
    /// meanwhile and is further than it was, they may have missed something. It is told of any of the watches.
    GoOn,
}

/// An order to watch, or to stop watching.
#[derive(Debug)]
pub enum Order {
    /// Watches the keys with this prefix: from this revision on, without [`Watched::Up`], or else
    /// from now on.
    Watch {
        /// The number of the watch, from 1 on.
        watch: u64,
        /// The keys of its bucket.
        keys: BucketKeys,
        /// The prefix.
        prefix: Vec<u8>,
        /// The first revision to tell of.
        from: Option<i64>,
    },
    /// Ends the watch with this number.
    Unwatch(u64),
}

/// Reads a key that exists, as an event; `None` if navlock has not written the key.
///
/// A key that another program has overwritten counts as deleted. It is no lock any more, although it
/// blocks requests. See [`strays`].
pub fn read(keys: &BucketKeys, kv: &KeyValue) -> Option<Event> {
    let key = keys.parse(&kv.key)?;
    let is_ours = strays::of_bucket(keys, kv).is_none();
    let put = || Put { made: kv.made, lease: kv.lease, value: Arc::from(&*kv.value) };
    Some(Event { key, revision: kv.written, put: is_ours.then(put) })
}
