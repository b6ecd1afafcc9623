//! What is to be looked at again: names that are being listed, and what has gone.

use std::{collections::VecDeque, time::Duration};

use navlock_engine::RequestId;

use crate::{clock::Uptime, keys::NameKey};

/// How many names are listed at a time: when a stream has ended, all that are watched are to be listed, and etcd
/// has others to serve.
pub(super) const MOST_LISTS: usize = 64;

/// Names that are being listed.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) running: usize,
    /// In the order in which it was found that they are to be.
    pub(super) waiting: VecDeque<List>,
}

/// A name that is to be listed: that of this watch, which has begun so often.
#[derive(Debug)]
pub(super) struct List {
    pub(super) watch: u64,
    pub(super) begun: u64,
    pub(super) delay: Duration,
}

/// Something of ours that has gone, be it with its lease or by itself.
#[derive(Debug)]
pub(super) struct Gone {
    pub(super) lease: i64,
    pub(super) name: NameKey,
    pub(super) id: RequestId,
    /// The revision in which it went.
    pub(super) revision: i64,
    /// When that was heard of.
    pub(super) since: Uptime,
}
