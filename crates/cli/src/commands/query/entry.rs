//! What a line of `navlock query` is about: a lock, a request, or a name that is owned.

use std::{borrow::Cow, collections::HashMap};

use navlock::{Inspected, Inspection, Owned};

use super::QueryArgs;
use crate::remedy::line_if_stopped;

/// A lock or a request, with its place in the queue; or a name that is owned.
pub(super) struct Entry<'a> {
    pub(super) state: &'static str,
    pub(super) inspected: Cow<'a, Inspected>,
    /// The place in the queue; 1 is the next.
    pub(super) position: Option<usize>,
    /// How often an owner has taken the name without asking.
    pub(super) taken: Option<u64>,
    /// The bucket, if several are shown.
    pub(super) bucket: Option<&'a str>,
    /// The line that lets its process go on, if the process is stopped.
    pub(super) continues: Option<String>,
}

/// The part of an entry that does not change while the lock or request stays where it is.
pub(super) type Told = (&'static str, Inspected, Option<usize>, Option<String>);

impl<'a> Entry<'a> {
    fn new(state: &'static str, inspected: &'a Inspected, position: Option<usize>) -> Self {
        let continues = inspected.agent.as_deref().and_then(line_if_stopped);
        let inspected = Cow::Borrowed(inspected);
        Self { state, inspected, position, taken: None, bucket: None, continues }
    }

    /// A name that nobody holds, and whose owner can take it without asking.
    fn owned(owned: &Owned) -> Self {
        let mut inspected = Inspected::new(owned.lock.clone());
        (inspected.agent, inspected.age) = (owned.agent.clone(), owned.age);
        let (inspected, taken) = (Cow::Owned(inspected), Some(owned.taken));
        Self { state: "owned", inspected, position: None, taken, bucket: None, continues: None }
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
        entries.extend(inspection.owned.iter().filter(|_| with_owned).map(Self::owned));
        entries.retain(|entry| {
            let Inspected { lock, age, .. } = &*entry.inspected;
            let is_named = args.name.as_ref().is_none_or(|name| lock.name == *name);
            is_named && args.longer_than.is_none_or(|time| age.is_some_and(|age| age > time))
        });
        // The sort is stable: within a name, holders come before waiters, and waiters in the order
        // in which they will be served.
        entries.sort_by(|a, b| a.inspected.lock.name.cmp(&b.inspected.lock.name));
        entries
    }

    pub(super) fn told(&self) -> Told {
        let mut inspected = self.inspected.clone().into_owned();
        inspected.age = None;
        (self.state, inspected, self.position, self.continues.clone())
    }
}

#[cfg(test)]
mod tests;
