//! How requests stand that are next in a queue, and how many of them one transaction takes.

use navlock_core::Mode;

use super::surroundings::Surroundings;
use crate::{
    mirror::Entry,
    slots::Owner,
    table::Status,
    transactions::{MOST, MOST_BYTES},
    view::View,
};

/// Those of ours that are next in a queue, up to the first that is another's or shared: that one may be to
/// hold beside who comes after it.
pub(super) fn run(view: &View, around: &impl Surroundings) -> Vec<Entry> {
    if !view.may_be_owned() {
        return Vec::new();
    }
    let mut last = None;
    let run = view.mirror.queue().take(MOST).take_while(|entry| {
        let Owner::Request(id) = around.owner(entry.request, entry.made) else { return false };
        let is_wanted = matches!(around.status(id), Status::Pending(_));
        let is_later = last.replace(id.serial()) < Some(id.serial());
        is_wanted && is_later && entry.mode == Mode::Exclusive
    });
    run.cloned().collect()
}

/// Whether those of ours who wait have asked in this order: who owns a name serves them in that of the calls.
pub(super) fn is_as_called<'a>(
    queue: impl Iterator<Item = &'a Entry>,
    around: &impl Surroundings,
) -> bool {
    let serials = queue.filter_map(|entry| match around.owner(entry.request, entry.made) {
        Owner::Request(id) => Some(id.serial()),
        _ => None,
    });
    serials.is_sorted()
}

/// As much of the front of a queue as one transaction grants: up to what is not to be granted, or
/// does not fit in.
pub(super) fn granted<'a>(
    front: impl Iterator<Item = &'a Entry>,
    most: usize,
    around: &impl Surroundings,
) -> Vec<Entry> {
    let mut bytes = 0;
    let granted = front.take(most).take_while(|entry| {
        bytes += entry.value.len();
        let fits = bytes == entry.value.len() || bytes <= MOST_BYTES;
        fits && matches!(standing(entry, around), Standing::Wanted | Standing::Others)
    });
    granted.cloned().collect()
}

/// What is to be done with a request that can be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Wanted,
    /// Another machine's, and wanted as far as we know.
    Others,
    /// It is ours, and nobody wants it.
    Unwanted,
    /// The mirror is behind.
    NotToDo,
}

pub(super) fn standing(entry: &Entry, around: &impl Surroundings) -> Standing {
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
