//! What has to be done with the requests at the front of a queue, and how many of them one
//! transaction grants.

use navlock_core::Mode;

use super::bucket_host::BucketHost;
use crate::{
    mirror::Entry,
    slots::Owner,
    table::Status,
    transactions::{MOST, MOST_BYTES},
    view::View,
};

/// The requests of this connection at the front of a queue, up to the first request that belongs to
/// another connection or is shared. A shared request ends a run, because the request behind it may
/// share the lock.
pub(super) fn run(view: &View, around: &impl BucketHost) -> Vec<Entry> {
    if !view.may_be_owned() {
        return Vec::new();
    }
    let mut last = None;
    let run = view.mirror.first().take(MOST).take_while(|entry| {
        let Owner::Request(id) = around.owner(entry.request, entry.made) else { return false };
        let is_wanted = matches!(around.status(id), Status::Pending(_));
        let is_later = last.replace(id.serial()) < Some(id.serial());
        is_wanted && is_later && entry.mode == Mode::Exclusive
    });
    run.cloned().collect()
}

/// Whether the requests of this connection stand in this queue in the order of their calls. An owner of
/// the name would serve them in that order.
pub(super) fn is_as_called<'a>(
    queue: impl Iterator<Item = &'a Entry>,
    around: &impl BucketHost,
) -> bool {
    let serials = queue.filter_map(|entry| match around.owner(entry.request, entry.made) {
        Owner::Request(id) => Some(id.serial()),
        _ => None,
    });
    serials.is_sorted()
}

/// The requests from the front of a queue that one transaction grants: up to the first that must
/// not be granted, or does not fit.
pub(super) fn granted<'a>(
    front: impl Iterator<Item = &'a Entry>,
    most: usize,
    around: &impl BucketHost,
) -> Vec<Entry> {
    let mut bytes = 0;
    let granted = front.take(most).take_while(|entry| {
        bytes += entry.value.len();
        let fits = bytes == entry.value.len() || bytes <= MOST_BYTES;
        fits && matches!(standing(entry, around), Standing::Wanted | Standing::Others)
    });
    granted.cloned().collect()
}

/// What has to be done with a request that can be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Wanted,
    /// The request belongs to another machine, and is wanted as far as this connection knows.
    Others,
    /// The request is ours, and nobody wants it any more, so it has to be removed.
    Unwanted,
    /// There is nothing to do, because the mirror is behind, and the request is held or gone
    /// already.
    NotToDo,
}

pub(super) fn standing(entry: &Entry, around: &impl BucketHost) -> Standing {
    match around.owner(entry.request, entry.made) {
        Owner::Request(id) => match around.status(id) {
            Status::Pending(_) => Standing::Wanted,
            Status::Held(_) => Standing::NotToDo,
            Status::Ended | Status::Absent => Standing::Unwanted,
        },
        Owner::Stray => Standing::Unwanted,
        Owner::Others => Standing::Others,
        Owner::Past => Standing::NotToDo,
    }
}
