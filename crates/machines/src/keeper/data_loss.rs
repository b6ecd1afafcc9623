//! What is done when the store has begun anew: everything that was known is forgotten, once.

use std::time::Duration;

use navlock_core::Lost;

use super::{
    Keeper, Listed,
    history::{Known, Verdict},
};
use crate::{LOGS, data::Stamp, keys::BucketKeys};

impl Keeper {
    /// Whether the answer to a call fits what is known. If the store has begun anew, this function
    /// forgets everything that was known.
    pub(super) fn goes_on(&mut self, known: Known, stamp: Option<Stamp>) -> bool {
        let verdict = match stamp {
            Some(stamp) => self.history.judge(known, stamp),
            // There was no answer.
            None if self.history.is_of_now(known) => Verdict::GoesOn,
            None => Verdict::IsOld,
        };
        if verdict == Verdict::BeginsAnew {
            self.begin_anew(stamp.map_or(0, |stamp| stamp.cluster));
        }
        verdict == Verdict::GoesOn
    }

    /// Tells all holders that their locks are lost, and makes all waiting requests again.
    pub(super) fn begin_anew(&mut self, cluster: u64) {
        tracing::error!(
            target: LOGS,
            cluster,
            "{} has lost its data, or was set back: all locks are lost, and tokens may go back",
            self.store
        );
        self.history.begin_anew(cluster);
        // The store does not know any more which keys were in use. Keys that it still has are old, and
        // are removed.
        self.slots.forget();
        let buckets: Vec<u64> = self.buckets.keys().copied().collect();
        for &bucket in &buckets {
            let Some(opened) = self.buckets.get_mut(&bucket) else { continue };
            opened.bucket.begin_anew();
            // The old watches may still tell of things from before that.
            let names: Vec<_> = opened.bucket.views.keys().cloned().collect();
            for name in names {
                self.close_view(bucket, &name);
                self.open_view(bucket, &name, None);
            }
        }
        for lease in self.leases.ids() {
            self.lose_lease(lease, Lost::Reset);
        }
        self.ask_queries_again();
        for bucket in buckets {
            self.step_all(bucket);
            self.forget(bucket);
        }
    }

    /// To be called when the store does not know a lease any more that should have lasted longer. Others
    /// may have been granted what was held under the lease. The agents are told as soon as the
    /// reason is known.
    pub(super) fn doubt(&mut self, lease: i64) {
        if self.leases.doubt(lease) {
            let prefix = BucketKeys::nothing(&self.options.namespace);
            self.list(Listed::Lease(lease), prefix, Duration::ZERO);
        }
    }

    /// To be called when the store goes on from what it has said, and does not know this lease.
    pub(super) fn settle_doubt(&mut self, lease: i64) {
        self.lose_lease(lease, Lost::Disconnected);
    }
}
