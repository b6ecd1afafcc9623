//! Answers that are sent in parts. Each part is made when there is room for it.

use std::{future::Future, pin::Pin, vec};

use navlock_core::{Error, Inspected, Inspection, LockInfo, LockManagerSnapshot, Position};
use navlock_wire::{FromDaemon, Query};

/// About how long a part is, in bytes; one entry may be longer.
const PART: usize = 64 << 10;

/// How many bytes an entry takes at most besides its texts.
const OVERHEAD: usize = 64;

/// An answer that is still to come. `None` if what was read before the question has changed.
pub(super) type QueryFuture = Pin<Box<dyn Future<Output = Option<Answered>> + Send>>;

/// The number of a question, and its answer.
pub(super) type Answered = (Query, Result<Answer, Error>);

/// The answer to a question.
pub(super) enum Answer {
    Snapshot(LockManagerSnapshot),
    Inspection(Inspection),
    Position(Position),
}

/// An answer on its way.
pub(super) enum Parts {
    Snapshot(Query, Lists<LockInfo>),
    /// With the number of entries that are left out.
    Inspection(Query, Lists<Inspected>, u64),
}

/// What is held, pending and owned, as far as it was not sent yet.
pub(super) struct Lists<T>([vec::IntoIter<T>; 3]);

impl Parts {
    pub(super) fn of_snapshot(query: Query, snapshot: LockManagerSnapshot) -> Self {
        let LockManagerSnapshot { held, pending, .. } = snapshot;
        Self::Snapshot(query, Lists([held, pending, Vec::new()].map(Vec::into_iter)))
    }

    pub(super) fn of_inspection(query: Query, inspection: Inspection) -> Self {
        let Inspection { held, pending, owned, left_out, .. } = inspection;
        Self::Inspection(query, Lists([held, pending, owned].map(Vec::into_iter)), left_out)
    }

    /// The next part, and whether it is the last.
    pub(super) fn next_part(&mut self) -> (FromDaemon, bool) {
        match self {
            Self::Snapshot(query, lists) => {
                let ([held, pending, _], last) = lists.next(|lock| lock.name.as_bytes().len());
                (FromDaemon::Snapshot { query: *query, held, pending, last }, last)
            }
            Self::Inspection(query, lists, left_out) => {
                let ([held, pending, owned], last) = lists.next(size);
                let (query, left_out) = (*query, *left_out);
                (FromDaemon::Inspection { query, held, pending, owned, left_out, last }, last)
            }
        }
    }
}

impl<T> Lists<T> {
    /// As many entries as there is room for in a part, and whether they are the last ones.
    fn next(&mut self, size: impl Fn(&T) -> usize) -> ([Vec<T>; 3], bool) {
        let mut room = PART;
        let parts = self.0.each_mut().map(|list| take(list, &mut room, |one| size(one) + OVERHEAD));
        (parts, self.0.iter().all(|list| list.len() == 0))
    }
}

/// About how many bytes the texts of an entry have.
fn size(Inspected { lock, agent, .. }: &Inspected) -> usize {
    lock.name.as_bytes().len() + agent.as_ref().map_or(0, |agent| agent.size())
}

/// Takes entries while there is room. The last one may be longer than the room.
pub(super) fn take<T>(
    from: &mut vec::IntoIter<T>,
    room: &mut usize,
    mut size: impl FnMut(&T) -> usize,
) -> Vec<T> {
    let mut taken = Vec::new();
    while *room > 0 {
        let Some(next) = from.next() else {
            break;
        };
        *room = room.saturating_sub(size(&next));
        taken.push(next);
    }
    taken
}
