//! The events that have just happened, until they are entered in the journal.
//!
//! The inbox is the only thing that sessions and lookers share. A session locks the inbox only to
//! write one event, and the lookers' thread only to swap the whole inbox for an empty one.

use std::{mem, sync::Arc};

use navlock_core::{host::Journal, look::LookOptions};
use navlock_wire::{LookEvent, Moment};
use tokio::sync::Notify;

/// At most this many events are kept, and about this many bytes: names can be long.
const MOST: usize = 1 << 14;
const MOST_BYTES: usize = 8 << 20;

/// How many places may stay allocated when nothing waits.
const KEPT: usize = 1 << 12;

/// The events in their order, and the lookers to wake.
#[derive(Default)]
pub(super) struct Inbox {
    batch: Batch,
    waiting: Vec<Arc<Notify>>,
}

/// What has happened since the inbox was last taken.
#[derive(Default)]
pub(super) struct Batch {
    notes: Vec<Note>,
    /// How many of the notes are events, and about how many bytes these take.
    events: usize,
    bytes: usize,
}

#[derive(Debug)]
pub(super) enum Note {
    /// An event.
    Event(LookEvent),
    /// There was no room for this many events.
    Missed(u64),
    /// A picture for this looker begins at this moment. The looker may be new.
    Picture(u64, LookOptions),
    /// The picture for this looker is complete at this moment.
    Whole(u64),
    /// This looker has gone.
    Gone(u64),
}

impl Inbox {
    /// Notes an event that happens now. Returns the lookers to wake.
    pub(super) fn note(&mut self, event: LookEvent) -> Vec<Arc<Notify>> {
        let Batch { notes, events, bytes } = &mut self.batch;
        if *events < MOST && *bytes < MOST_BYTES {
            *events += 1;
            *bytes += event.size();
            notes.push(Note::Event(event));
        } else if let Some(Note::Missed(missed)) = notes.last_mut() {
            *missed += 1;
        } else {
            notes.push(Note::Missed(1));
        }
        mem::take(&mut self.waiting)
    }

    /// Notes something about a looker.
    pub(super) fn put(&mut self, note: Note) {
        self.batch.notes.push(note);
    }

    /// Notes that the next event has to wake this looker. Returns whether the looker has to wait, which
    /// it has not if the inbox contains events already.
    pub(super) fn wakes(&mut self, told: &Arc<Notify>) -> bool {
        if !self.batch.notes.is_empty() {
            return false;
        }
        if !self.waiting.iter().any(|waits| Arc::ptr_eq(waits, told)) {
            self.waiting.push(Arc::clone(told));
        }
        true
    }

    /// Swaps the batch for this empty one.
    pub(super) fn take(&mut self, empty: &mut Batch) {
        mem::swap(&mut self.batch, empty);
    }
}

impl Batch {
    /// Enters everything in the journal. The batch is empty then, and keeps some of its memory for the next
    /// time.
    pub(super) fn enter(&mut self, journal: &mut Journal<Moment>) {
        for note in self.notes.drain(..) {
            match note {
                Note::Event(event) => _ = journal.note(None, event),
                Note::Missed(missed) => journal.miss(missed),
                Note::Picture(id, options) => journal.begin_picture(id, &options),
                Note::Whole(id) => journal.end_picture(id),
                Note::Gone(id) => journal.remove(id),
            }
        }
        self.notes.shrink_to(KEPT);
        (self.events, self.bytes) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use navlock_core::{
        ClientId,
        look::{Change, LockId, LockName},
    };

    use super::*;

    fn went(client: u64) -> LookEvent {
        LookEvent { at: client, change: Change::ClientWent { client } }
    }

    #[test]
    fn a_waiting_looker_is_woken_once_and_only_if_nothing_has_happened_before() {
        let (mut inbox, told) = (Inbox::default(), Arc::default());
        assert!(inbox.wakes(&told) && inbox.wakes(&told));
        assert_eq!(inbox.note(went(1)).len(), 1);
        assert_eq!(inbox.note(went(2)).len(), 0);
        assert!(!inbox.wakes(&told));
        inbox.take(&mut Batch::default());
        assert!(inbox.wakes(&told));
    }

    #[test]
    fn an_inbox_that_nobody_empties_is_bounded_and_counts_missed_events_in_their_place() {
        let mut inbox = Inbox::default();
        let more = 7;
        (0..MOST as u64 + more).for_each(|number| drop(inbox.note(went(number))));
        inbox.put(Note::Gone(1));
        inbox.note(went(0));
        let mut batch = Batch::default();
        inbox.take(&mut batch);
        let [events @ .., Note::Missed(before), Note::Gone(1), Note::Missed(1)] = &batch.notes[..]
        else {
            panic!("{} notes", batch.notes.len())
        };
        assert_eq!((events.len(), *before), (MOST, more));
        batch.enter(&mut Journal::default());
        inbox.take(&mut batch);
        let name = LockName::new("a", "x".repeat(1 << 20).try_into().unwrap());
        let id = LockId { client_id: ClientId::random(), serial: 2 };
        let change = Change::Released { name, id };
        (0..9).for_each(|_| drop(inbox.note(LookEvent { at: 0, change: change.clone() })));
        inbox.take(&mut batch);
        assert!(matches!(batch.notes[..], [.., Note::Missed(1)]));
        assert_eq!(batch.notes.len(), 9);
        batch.enter(&mut Journal::default());
        assert!(batch.notes.capacity() <= KEPT, "it keeps nothing that is so large");
    }
}
