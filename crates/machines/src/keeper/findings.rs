//! What becomes of a request, according to what a watch tells of its key, or what a list has found
//! of it.

use super::removed::LeftBehind;
use crate::{keys::Phase, mirror::Entry, slots::Owner, table::Status, tokens::Grant, watched::Put};

/// What becomes of a key and of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// The request of the key is granted.
    Granted,
    /// The request of the key waits, since this revision.
    Waits(i64),
    /// Nobody wants the key. It has to be removed: only as a lock, only as a request, or as both.
    Unwanted(Option<Phase>),
    /// The key is gone, and its request is made again.
    AskAgain,
    /// The key is gone, and the reason has to be found out.
    Gone,
    /// Nothing becomes of them.
    Nothing,
}

/// An event that a watch tells of a key.
pub(super) struct Notice<'a> {
    pub(super) phase: Phase,
    /// What was put; `None` if the key was deleted.
    pub(super) put: Option<&'a Put>,
    /// Whether the event belongs to the revision in which this connection began to own the name.
    pub(super) is_absorbed: bool,
    /// Whether the lease of what was put is lost for this connection, and may not be over yet for
    /// others.
    pub(super) is_expiring: bool,
}

impl Finding {
    /// The finding for an event about a key of this owner, whose request has this status.
    ///
    /// | key | event | request | finding |
    /// |---|---|---|---|
    /// | a request's | put as a lock under a lease that is lost to us | ended | nothing, until that lease is over |
    /// | | put | ended | unwanted |
    /// | | put as a request | held | unwanted as a request |
    /// | | put as a lock | any other | granted |
    /// | | put as a request | any other | waits |
    /// | | deleted | absorbed by an owned name | ask again |
    /// | | deleted | any other | gone |
    /// | a stray's, or left by an agent that has come back | put | - | unwanted |
    /// | another's, or of an earlier use of the key | any | - | nothing |
    pub(super) fn of_event(
        told: &Notice<'_>,
        owner: Owner,
        status: Status,
        left: &LeftBehind,
    ) -> Self {
        let &Notice { phase, put, is_absorbed, is_expiring } = told;
        match (owner, put) {
            (Owner::Request(_), Some(put)) => match (status, phase) {
                (_, Phase::Owned) => Self::Nothing,
                // Work under the lock may not have ended.
                (Status::Ended, _) if is_expiring => Self::Nothing,
                // A late try has made this key.
                (Status::Ended, _) => Self::Unwanted(None),
                (Status::Held(_), Phase::Queued) => Self::Unwanted(Some(Phase::Queued)),
                (_, Phase::Held) => Self::Granted,
                (_, Phase::Queued) => Self::Waits(put.made),
            },
            (Owner::Request(_), None) if is_absorbed && phase == Phase::Queued => Self::AskAgain,
            (Owner::Request(_), None) => Self::Gone,
            (Owner::Stray, Some(_)) => Self::Unwanted(None),
            (Owner::Others, Some(put)) if left.covers(put.lease, &put.value) => {
                Self::Unwanted(None)
            }
            (Owner::Stray | Owner::Others | Owner::Past, _) => Self::Nothing,
        }
    }

    /// The finding for a request with this status, if a list at this revision has found this of it:
    /// its lock, and its place in the queue.
    pub(super) fn of_request(
        status: Status,
        lock: Option<&Entry>,
        queued: Option<&Entry>,
        revision: i64,
    ) -> Self {
        match (status, lock, queued) {
            (Status::Pending(_), Some(_), _) => Self::Granted,
            (Status::Pending(_), None, Some(queued)) => Self::Waits(queued.made),
            // The request was granted, and its lock was taken away again, while nobody watched. If
            // its lease had ended, the call that keeps the lease would tell that.
            (Status::Pending(since), None, None) if since > 0 && since <= revision => Self::Gone,
            (Status::Held(Grant { made, .. }), None, _) if made <= revision => Self::Gone,
            _ => Self::Nothing,
        }
    }

    /// The finding for an entry of a list, whose request has this status. `is_idle` says that
    /// nothing is on its way for the name, and `is_held` that the same request has a lock in the
    /// list.
    pub(super) fn of_entry(
        (phase, entry): (Phase, &Entry),
        owner: Owner,
        status: Status,
        (is_idle, is_held): (bool, bool),
        left: &LeftBehind,
    ) -> Self {
        match (owner, status) {
            (Owner::Request(_), Status::Held(_)) if phase == Phase::Queued && is_held => {
                Self::Unwanted(Some(Phase::Queued))
            }
            (Owner::Request(_), Status::Ended | Status::Absent) if is_idle => Self::Unwanted(None),
            (Owner::Stray, _) => Self::Unwanted(None),
            (Owner::Others, _) if left.covers(entry.lease, &entry.value) => Self::Unwanted(None),
            _ => Self::Nothing,
        }
    }
}
