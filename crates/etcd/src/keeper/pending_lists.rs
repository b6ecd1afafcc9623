//! Names that are being listed, and keys that have gone, which have to be looked at again.

use std::{collections::VecDeque, time::Duration};

use navlock_engine::RequestId;

use crate::{clock::Uptime, keys::NameKey};

/// How many names are listed at a time. After the end of a stream, all watched names have to be
/// listed, and etcd has others to serve.
pub(super) const MOST_LISTS: usize = 64;

/// Names that are being listed.
#[derive(Debug, Default)]
pub(super) struct Lists {
    pub(super) running: usize,
    /// Names that still have to be listed, in the order in which this connection noticed it.
    pub(super) waiting: VecDeque<List>,
}

/// A list that is wanted: of the name of this watch. `begun` says how often the watch had begun.
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
    /// The revision in which the key was deleted.
    pub(super) revision: i64,
    /// When this connection heard that the key has gone.
    pub(super) since: Uptime,
}
