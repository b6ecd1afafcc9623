//! What a line of `navlock query` is about: a lock, a request, or a name that is owned.

use std::collections::HashMap;

use navlock::{Inspected, Inspection};

use super::QueryArgs;
use crate::remedy::line_if_stopped;

/// The state of a name that nobody holds, and whose owner can take it without asking.
const OWNED: &str = "owned";

/// A lock or a request, with its place in the queue; or a name that is owned.
pub(super) struct Entry<'a> {
    pub(super) state: &'static str,
    pub(super) inspected: &'a Inspected,
    /// The place in the queue; 1 is the next.
    pub(super) position: Option<usize>,
    /// The bucket, if several are shown.
    pub(super) bucket: Option<&'a str>,
    /// The line that lets its process go on, if the process is stopped.
    pub(super) continues: Option<String>,
}

/// The part of an entry that does not change while the lock or request stays where it is.
pub(super) type Told = (&'static str, Inspected, Option<usize>, Option<String>);

impl<'a> Entry<'a> {
    fn new(state: &'static str, inspected: &'a Inspected, position: Option<usize>) -> Self {
        let continues =
            inspected.agent.as_deref().filter(|_| state != OWNED).and_then(line_if_stopped);
        Self { state, inspected, position, bucket: None, continues }
    }

    /// How often the owner of an owned name has taken it without asking.
    pub(super) fn taken(&self) -> Option<u64> {
        (self.state == OWNED).then_some(self.inspected.taken)
    }

    /// The entries that the arguments ask for, in the order in which they are shown. `with_owned`
    /// says whether owned names are included.
    pub(super) fn all(inspection: &'a Inspection, args: &QueryArgs, with_owned: bool) -> Vec<Self> {
        let held = inspection.held.iter();
        let mut entries: Vec<_> =
            held.map(|inspected| Self::new("held", inspected, None)).collect();
        let mut lengths = HashMap::<_, usize>::new();
        // If entries are left out, they may be anywhere in their queues.
        let is_whole = inspection.left_out == 0;
        entries.extend(inspection.pending.iter().map(|inspected| {
            let position = lengths.entry(&inspected.lock.name).or_default();
            *position += 1;
            Self::new("pending", inspected, is_whole.then_some(*position))
        }));
        let owned = inspection.owned.iter().filter(|_| with_owned);
        entries.extend(owned.map(|inspected| Self::new(OWNED, inspected, None)));
        entries.retain(|entry| {
            let Inspected { lock, age, .. } = entry.inspected;
            let is_named = args.name.as_ref().is_none_or(|name| lock.name == *name);
            is_named && args.longer_than.is_none_or(|time| age.is_some_and(|age| age > time))
        });
        // The sort is stable: within a name, holders come before waiters, and waiters in the order
        // in which they will be served.
        entries.sort_by(|a, b| a.inspected.lock.name.cmp(&b.inspected.lock.name));
        entries
    }

    pub(super) fn told(&self) -> Told {
        let mut inspected = self.inspected.clone();
        inspected.age = None;
        (self.state, inspected, self.position, self.continues.clone())
    }
}

#[cfg(test)]
mod tests;
