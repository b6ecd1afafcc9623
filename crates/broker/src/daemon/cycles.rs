//! The names for which requests wait inside locks, and the cycles of requests that wait for each
//! other.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use foldhash::quality::RandomState;
use navlock_core::{ResourceName, look::LockId};

/// Names by their buckets.
///
/// The names come from many clients, so the hash is keyed: no client can make the names of others
/// collide.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(HashMap<Arc<str>, HashSet<ResourceName, RandomState>, RandomState>);

/// The names for which requests wait inside locks.
#[derive(Debug, Default)]
pub(super) struct Nested {
    pub(super) names: Names,
    /// The locks inside which these requests were made.
    pub(super) around: HashSet<LockId, RandomState>,
}

/// What the daemon tells the clients whose requests are in cycles.
#[derive(Debug, Default)]
pub(super) struct Cycles {
    pub(super) requests: HashMap<LockId, InCycle, RandomState>,
    /// How many requests each cycle has.
    pub(super) lengths: Vec<usize>,
}

/// What the daemon tells the client of one request in a cycle.
#[derive(Clone, Debug)]
pub(super) struct InCycle {
    pub(super) told: Arc<str>,
    /// Whether this request is the one that gives way.
    pub(super) gives_way: bool,
}

impl Names {
    pub(super) fn add(&mut self, bucket: &Arc<str>, name: &ResourceName) {
        self.0.entry(Arc::clone(bucket)).or_default().insert(name.clone());
    }

    pub(super) fn has(&self, bucket: &str, name: &ResourceName) -> bool {
        self.0.get(bucket).is_some_and(|names| names.contains(name))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &ResourceName)> {
        self.0.iter().flat_map(|(bucket, names)| names.iter().map(move |name| (bucket, name)))
    }
}

impl Nested {
    /// Notes that a request waits for this name inside these locks.
    pub(super) fn add(
        &mut self,
        bucket: &Arc<str>,
        name: &ResourceName,
        around: impl Iterator<Item = LockId>,
    ) {
        self.names.add(bucket, name);
        self.around.extend(around);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.0.is_empty()
    }
}
