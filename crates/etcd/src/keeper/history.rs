//! That etcd goes on from what it has said, and has not begun anew.
//!
//! An etcd whose data was lost, or restored from a backup, begins again with a smaller revision, and
//! does not know of what was granted since. What it says cannot be put together with what it has said
//! before: the same revision may be two things. So all that was known is forgotten, once, and what is
//! asked for from then on is asked of what etcd is now.

use std::{fmt, time::Duration};

use navlock_core::Lost;

use super::{Keeper, Listed, leases::State};
use crate::{LOGS, data::Stamp, keys::BucketKeys};

/// What of etcd's past is known.
#[derive(Debug, Default)]
pub(super) struct History {
    /// How often it was found that etcd has begun anew.
    epoch: u64,
    /// The largest revision that was heard of.
    revision: i64,
    /// The cluster that answers; 0 until one has.
    cluster: u64,
}

/// What was known when a call was made.
#[derive(Clone, Copy, Default)]
pub(crate) struct Known {
    epoch: u64,
    revision: i64,
}

/// Of no interest to who looks at a call; the model would see more states than there are.
impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Known")
    }
}

/// What an answer means for what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It can be put together with what is known.
    GoesOn,
    /// It was asked before it was found that etcd has begun anew. It is of no use any more.
    IsOld,
    /// Etcd has begun anew.
    BeginsAnew,
}

impl History {
    pub(super) fn known(&self) -> Known {
        Known { epoch: self.epoch, revision: self.revision }
    }

    /// The cluster that answers, once one has.
    pub(super) fn cluster(&self) -> u64 {
        self.cluster
    }

    /// The largest revision that was heard of.
    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    /// Something happened in this revision.
    pub(super) fn heard(&mut self, revision: i64) {
        self.revision = self.revision.max(revision);
    }

    /// Judges the answer to a call that etcd answers by all that has happened before: then its
    /// revision is not below one that was known before the call.
    fn judge(&mut self, known: Known, stamp: Stamp) -> Verdict {
        if known.epoch != self.epoch {
            return Verdict::IsOld;
        }
        let is_another = self.cluster != 0 && stamp.cluster != self.cluster;
        if is_another || stamp.revision < known.revision {
            return Verdict::BeginsAnew;
        }
        self.cluster = stamp.cluster;
        self.heard(stamp.revision);
        Verdict::GoesOn
    }

    /// Forgets all, but for who answers now.
    fn begin_anew(&mut self, cluster: u64) {
        *self = Self { epoch: self.epoch + 1, revision: 0, cluster };
    }
}

impl Keeper {
    /// Whether the answer to a call can be put together with what is known. If etcd has begun anew,
    /// all that was known is forgotten by then.
    pub(super) fn goes_on(&mut self, known: Known, stamp: Option<Stamp>) -> bool {
        let verdict = match stamp {
            Some(stamp) => self.history.judge(known, stamp),
            // Nothing was answered.
            None if known.epoch == self.history.epoch => Verdict::GoesOn,
            None => Verdict::IsOld,
        };
        if verdict == Verdict::BeginsAnew {
            self.begin_anew(stamp.map_or(0, |stamp| stamp.cluster));
        }
        verdict == Verdict::GoesOn
    }

    /// Tells all who held that their locks are lost, and asks again for all who wait.
    pub(super) fn begin_anew(&mut self, cluster: u64) {
        tracing::error!(
            target: LOGS,
            cluster,
            "etcd has lost its data, or was set back: all locks are lost, and tokens may go back"
        );
        self.history.begin_anew(cluster);
        // What keys were in use for means nothing to etcd now. What it still has of them was made
        // before, and goes.
        self.slots.forget();
        let buckets: Vec<u64> = self.buckets.keys().copied().collect();
        for &bucket in &buckets {
            let Some(house) = self.buckets.get_mut(&bucket) else { continue };
            house.bucket.begin_anew();
            // Their watches may still have something to say of what was before.
            let names: Vec<_> = house.bucket.views.keys().cloned().collect();
            for name in names {
                self.close_view(bucket, &name);
                self.open_view(bucket, &name, None);
            }
        }
        let mut leases: Vec<i64> = self.leases.keys().copied().collect();
        leases.sort_unstable();
        for lease in leases {
            self.lose_lease(lease, Lost::Reset);
        }
        self.ask_queries_again();
        for bucket in buckets {
            self.step_all(bucket);
            self.forget(bucket);
        }
    }

    /// Etcd does not know a lease any more that was to last for longer. Others may have what was
    /// under it: it is told as soon as it is known why.
    pub(super) fn doubt(&mut self, lease: i64) {
        let Some(found) = self.leases.get_mut(&lease) else { return };
        found.state = State::Doubted;
        self.shared.table().close_under(lease);
        let prefix = BucketKeys::nothing(&self.options.namespace);
        self.list(Listed::Lease(lease), prefix, Duration::ZERO);
    }

    /// Etcd goes on from what it has said, and does not know that lease.
    pub(super) fn settle_doubt(&mut self, lease: i64) {
        self.lose_lease(lease, Lost::Disconnected);
    }
}
