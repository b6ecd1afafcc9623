//! Names that the connection owns: when it begins to own a name, and what it writes to give one up.

use std::mem;

use super::{
    Bucket,
    bucket_host::BucketHost,
    name::Name,
    standing::{granted, is_as_called, run},
};
use crate::{
    ended::Ended,
    keys::NameKey,
    mirror::Entry,
    transactions::{Leaving, LeavingEntry, MOST, MOST_BYTES, Operation, Owning},
};

/// How many requests of this connection must be next in the queue for a run, in which the name is owned
/// for these requests alone. For one request, to own the name and to give it up would cost as much as
/// two handovers.
const SHORTEST_RUN: usize = 2;

impl Bucket {
    /// Decides whether to own a name instead of releasing this lock, and what to write for that. The
    /// name is owned if nobody else was seen at it for a number of takes, or if several requests of
    /// ours are next.
    pub(super) fn own(
        &mut self,
        key: &NameKey,
        ended: Ended,
        around: &impl BucketHost,
    ) -> Option<Owning> {
        let view = self.views.get_mut(key)?;
        let is_only = view.mirror.is_only(around.me());
        if !is_only {
            view.note_others();
        }
        if !view.mirror.is_alone(ended.request) {
            return None;
        }
        // The owner cannot grant a request under another lease, because that lease ends at another
        // time.
        let is_under = |lease| move |entry: &Entry| entry.lease == lease;
        let owning = if is_only && view.note_taken() && is_as_called(view.mirror.queue(), around) {
            let owning = around.owning(key)?;
            let mut all = view.mirror.entries().map(|(_, entry)| entry);
            all.all(is_under(owning.lease)).then_some(owning)
        } else {
            let run = run(view, around);
            if run.len() < SHORTEST_RUN {
                return None;
            }
            let owning = around.owning(key)?;
            run.iter().all(is_under(owning.lease)).then(|| owning.for_run(run))
        }?;
        view.ask_to_own(&owning);
        Some(owning)
    }

    /// Notes that a name that we own has to be given up, by writing these locks and requests, in
    /// their order.
    pub(crate) fn push_leaving(
        &mut self,
        key: &NameKey,
        made: i64,
        owner: u128,
        entries: Vec<LeavingEntry>,
    ) {
        let mut parts = vec![Vec::new()];
        let mut bytes = 0;
        for one in entries {
            bytes += one.ask.value.len();
            let last = parts.last().map_or(0, Vec::len);
            if last == MOST || last > 0 && bytes > MOST_BYTES {
                parts.push(Vec::new());
                bytes = one.ask.value.len();
            }
            parts.last_mut().into_iter().for_each(|part| part.push(one.clone()));
        }
        let count = parts.len();
        for (nth, entries) in parts.into_iter().enumerate() {
            let (is_last, successors, number) = (nth + 1 == count, Vec::new(), self.number());
            let leaving = Leaving { owner, made, entries, is_last, successors };
            let name = self.names.entry(key.clone()).or_default();
            name.leaving.push_back((number, leaving));
        }
    }

    /// Notes that a name is not given up after all. Returns the locks and requests that had still
    /// to be written.
    pub(crate) fn stop_leaving(&mut self, key: &NameKey) -> Vec<LeavingEntry> {
        let left = self.names.get_mut(key).map(|name| mem::take(&mut name.leaving));
        left.into_iter().flatten().flat_map(|(_, leaving)| leaving.entries).collect()
    }

    /// Gives a name up. If nobody here holds the name, the same transaction grants it to the
    /// waiters.
    pub(super) fn leave(
        &self,
        key: &NameKey,
        name: &mut Name,
        around: &impl BucketHost,
    ) -> Option<Operation> {
        let (number, mut leaving) = name.leaving.pop_front()?;
        name.under_way = Some(number);
        if leaving.entries.is_empty() {
            let successors =
                self.mirror(key).into_iter().flat_map(|of| of.successors_of_owner(leaving.owner));
            leaving.successors = granted(successors, MOST, around);
        }
        Some(Operation::Leave(leaving))
    }
}
