//! Whether the store goes on from what it has said, or has begun anew.
//!
//! A store whose data was lost, or restored from a backup, begins again with a smaller revision,
//! and does not know what was granted since. What it says does not fit what it said before, because
//! the same revision may stand for two things. So everything that was known is forgotten, once. All
//! later questions go to the store that is there now.

use std::fmt;

use crate::data::Stamp;

/// What is known of the store's past.
#[derive(Debug, Default)]
pub(super) struct History {
    /// How many times the store was found to have begun anew.
    epoch: u64,
    /// The largest revision that was heard of.
    revision: i64,
    /// The cluster that answers; 0 before the first answer.
    cluster: u64,
}

/// What was known when a call was made.
#[derive(Clone, Copy, Default)]
pub(crate) struct Known {
    epoch: u64,
    revision: i64,
}

/// People who read a call have no use for this, and with it the model would see more states than
/// there are.
impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Known")
    }
}

/// How an answer fits what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The answer fits what is known.
    GoesOn,
    /// The call was made before it was found that the store has begun anew. Its answer is of no use any
    /// more.
    IsOld,
    /// The store has begun anew.
    BeginsAnew,
}

impl History {
    pub(super) fn known(&self) -> Known {
        Known { epoch: self.epoch, revision: self.revision }
    }

    /// What is known, for a call that asks what there was at an earlier revision.
    pub(super) fn known_at(&self, revision: i64) -> Known {
        Known { revision, ..self.known() }
    }

    /// The cluster that answers; 0 before the first answer.
    pub(super) fn cluster(&self) -> u64 {
        self.cluster
    }

    /// The largest revision that was heard of.
    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    /// Notes that something happened in this revision.
    pub(super) fn heard(&mut self, revision: i64) {
        self.revision = self.revision.max(revision);
    }

    /// Judges the answer to a call that the store answers only when it has seen all earlier changes. So
    /// the revision of the answer is not below a revision that was known before the call.
    pub(super) fn judge(&mut self, known: Known, stamp: Stamp) -> Verdict {
        if !self.is_of_now(known) {
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

    /// Whether it was not found, since this was known, that the store has begun anew.
    pub(super) fn is_of_now(&self, known: Known) -> bool {
        known.epoch == self.epoch
    }

    /// Forgets everything except the cluster that answers now.
    pub(super) fn begin_anew(&mut self, cluster: u64) {
        *self = Self { epoch: self.epoch + 1, revision: 0, cluster };
    }
}
