//! What is asked for on a stream of watches, and what etcd has answered.

use std::collections::{BTreeMap, HashMap, VecDeque};

use navlock_etcd_client::{WatchAsk, WatchCreateRequest, WatchResponse};

use crate::keys::BucketKeys;

/// A watch that was ordered.
pub(super) struct Wanted {
    pub(super) keys: BucketKeys,
    pub(super) prefix: Vec<u8>,
    /// Everything up to this revision was told, or has to be known from a list. `None` if the watch begins
    /// with [`Watched::Up`](crate::watched::Watched::Up).
    pub(super) told: Option<i64>,
    /// Whether the watch was begun before, and goes on.
    pub(super) goes_on: bool,
    /// The watch's id on the stream, if etcd has told it.
    pub(super) id: Option<i64>,
}

impl Wanted {
    pub(super) fn asked(&self, watch: u64) -> WatchCreateRequest {
        // What was deleted in the very revision of a compaction is not told by a watch that begins there
        // (etcd issue 18089). A watch that begins before it ends instead.
        let first = |told: i64| if self.goes_on { told } else { told + 1 };
        let (id, start) = (number(watch), self.told.map_or(0, first));
        // A name to which nothing happens tells of progress as well, or the revision from which on it has to
        // be told would soon be compacted away. This is in order with the events, in every release of
        // etcd, and progress that is asked for is not.
        WatchCreateRequest {
            id,
            start,
            progress_notify: true,
            ..WatchCreateRequest::prefix(&*self.prefix)
        }
    }

    /// Notes that the watch begins anew. What happens before that is unknown.
    pub(super) fn forget(&mut self) {
        (self.told, self.id) = (None, None);
    }
}

/// A request to etcd on the stream.
pub(super) enum Ask {
    Watch(u64),
    /// Ends the watch with this id.
    End(i64),
}

/// The watches that were asked for on a stream, and the watches that have still to be asked for.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) next: VecDeque<Ask>,
    /// The watches for which etcd has not answered yet, in the order in which they were asked for, with the
    /// revision up to which they tell nothing if they begin now.
    unanswered: VecDeque<(u64, i64)>,
    /// The watches by their ids on the stream.
    pub(super) ids: HashMap<i64, u64>,
    /// Whether watches get the ids that we propose; `None` before the first answer. Etcd takes these
    /// ids. Etcd's proxy makes ids of its own, and answers in any order, so it is asked for one watch at
    /// a time.
    pub(super) is_ours_to_name: Option<bool>,
}

impl Asked {
    /// Nothing was asked yet of all these watches.
    pub(super) fn new(watches: impl Iterator<Item = u64>) -> Self {
        Self { next: watches.map(Ask::Watch).collect(), ..Self::default() }
    }

    /// The next watch to ask for, if a watch may be asked for now.
    pub(super) fn next(&mut self, wanted: &BTreeMap<u64, Wanted>) -> Option<WatchAsk> {
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

    /// Notes that the next watch was asked for, when the member was known to have this revision.
    pub(super) fn has_asked(&mut self, seen: i64) {
        if let Some(Ask::Watch(watch)) = self.next.pop_front() {
            self.unanswered.push_back((watch, seen));
        }
    }

    /// Takes in an answer. Returns the watch that has begun, and the revision that the member was known to
    /// have before that; `None` if etcd has not begun it.
    pub(super) fn begun(&mut self, response: &WatchResponse) -> Option<(u64, i64)> {
        let (watch, seen) = self.unanswered.pop_front()?;
        let (id, ours) = (response.watch_id, number(watch));
        let is_ours_to_name = *self.is_ours_to_name.get_or_insert(id == ours);
        let is_it = !response.canceled && (id == ours || !is_ours_to_name);
        is_it.then(|| {
            self.ids.insert(id, watch);
            (watch, seen)
        })
    }
}

/// The id that we propose for a watch on its stream. Watches are counted from 1 on.
fn number(watch: u64) -> i64 {
    i64::try_from(watch).unwrap_or(i64::MAX)
}
