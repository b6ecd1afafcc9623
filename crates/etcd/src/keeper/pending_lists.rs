//! What is to be looked at again: names that are being listed, and keys that have gone.

use std::{collections::VecDeque, time::Duration};

use navlock_engine::RequestId;

use crate::{clock::Uptime, keys::NameKey};

/// How many names are listed at a time. When a stream has ended, all watched names have to be
/// listed, and etcd has others to serve.
pub(super) const MOST_LISTS: usize = 64;

/// Names that are being listed.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) running: usize,
    /// Names that still have to be listed, in the order in which this was found.
    pub(super) waiting: VecDeque<List>,
}

/// A name that is to be listed: that of this watch, and how often the watch had begun.
#[derive(Debug)]
pub(super) struct List {
    pub(super) watch: u64,
    pub(super) begun: u64,
    pub(super) delay: Duration,
}

/// A key of this connection that has gone, with its lease or by itself.
#[derive(Debug)]
pub(super) struct Gone {
    pub(super) lease: i64,
    pub(super) name: NameKey,
    pub(super) id: RequestId,
    /// The revision in which the key went.
    pub(super) revision: i64,
    /// When this connection heard that the key has gone.
    pub(super) since: Uptime,
}
