//! The events that have just happened, until they are entered in the journal.
//!
//! The inbox is the only thing that sessions and lookers share. A session locks the inbox only to
//! write one event, and the lookers' thread only to swap the whole inbox for an empty one.

use std::{mem, sync::Arc};

use bytes::BytesMut;
use navlock_core::look::{Change, LockName};
use navlock_wire::LookEvent;
use tokio::sync::Notify;

use super::filter::Filter;

/// At most this many events are kept, and about this many bytes: names can be long.
const MOST: usize = 1 << 14;
const MOST_BYTES: usize = 8 << 20;

/// How many bytes may stay allocated when nothing waits.
const KEPT: usize = 256 << 10;

/// The events in their order, and the lookers to wake.
#[derive(Default)]
pub(super) struct Inbox {
    batch: Batch,
    waiting: Vec<Arc<Notify>>,
}

/// What has happened since the inbox was last taken.
#[derive(Default)]
pub(super) struct Batch {
    /// The events, one after the other, encoded as in messages.
    pub(super) bytes: BytesMut,
    pub(super) entries: Vec<Entry>,
    /// How many of the entries are events.
    events: usize,
}

pub(super) enum Entry {
    /// An event: what the event is about, and where it ends in the bytes.
    Event { of: About, end: usize },
    /// There was no room for this many events.
    Missed(u64),
    /// A picture for this looker begins at this moment. The looker may be new.
    Picture(u64, Filter),
    /// The picture for this looker is complete at this moment.
    Whole(u64),
    /// This looker has gone.
    Gone(u64),
}

/// What an event is about, as far as filters can tell.
pub(super) enum About {
    Anything,
    Bucket(Arc<str>),
    Name(LockName),
}

impl About {
    fn of(change: &Change) -> Self {
        match change {
            Change::AgentCame { details, .. } => Self::Bucket(Arc::clone(&details.bucket)),
            other => other.name().cloned().map_or(Self::Anything, Self::Name),
        }
    }

    pub(super) fn is_seen_by(&self, filter: &Filter) -> bool {
        match self {
            Self::Anything => true,
            Self::Bucket(bucket) => filter.has_bucket(bucket),
            Self::Name(of) => filter.has(&of.bucket, &of.name),
        }
    }
}

impl Inbox {
    /// Notes an event that happens now. Returns the lookers to wake.
    pub(super) fn note(&mut self, event: &LookEvent) -> Vec<Arc<Notify>> {
        let Batch { bytes, entries, events } = &mut self.batch;
        let before = bytes.len();
        if *events >= MOST || before >= MOST_BYTES {
            match entries.last_mut() {
                Some(Entry::Missed(missed)) => *missed += 1,
                _ => entries.push(Entry::Missed(1)),
            }
        } else if event.encode(bytes).is_ok() {
            *events += 1;
            entries.push(Entry::Event { of: About::of(&event.change), end: bytes.len() });
        } else {
            // An event cannot be too long: texts are clipped when they arrive, and names are
            // shorter than a frame.
            bytes.truncate(before);
        }
        mem::take(&mut self.waiting)
    }

    /// Notes something about a looker.
    pub(super) fn put(&mut self, entry: Entry) {
        self.batch.entries.push(entry);
    }

    /// Notes that the next event has to wake this looker. Returns whether the looker has to wait, which
    /// it has not if the inbox contains events already.
    pub(super) fn wakes(&mut self, told: &Arc<Notify>) -> bool {
        if !self.batch.entries.is_empty() {
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
    /// Empties the batch, which keeps some of its memory for the next time.
    pub(super) fn clear(&mut self) {
        if self.bytes.capacity() > KEPT {
            *self = Self::default();
        } else {
            self.bytes.clear();
            self.entries.clear();
            self.events = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use navlock_core::{ClientId, look::LockId};

    use super::*;

    fn went(client: u64) -> LookEvent {
        LookEvent { at: client, change: Change::ClientWent { client } }
    }

    #[test]
    fn a_waiting_looker_is_woken_once_and_only_if_nothing_has_happened_before() {
        let (mut inbox, told) = (Inbox::default(), Arc::default());
        assert!(inbox.wakes(&told) && inbox.wakes(&told));
        assert_eq!(inbox.note(&went(1)).len(), 1);
        assert_eq!(inbox.note(&went(2)).len(), 0);
        assert!(!inbox.wakes(&told));
        inbox.take(&mut Batch::default());
        assert!(inbox.wakes(&told));
    }

    #[test]
    fn an_inbox_that_nobody_empties_is_bounded_and_counts_missed_events_in_their_place() {
        let mut inbox = Inbox::default();
        let more = 7;
        (0..MOST as u64 + more).for_each(|number| drop(inbox.note(&went(number))));
        inbox.put(Entry::Gone(1));
        inbox.note(&went(0));
        let mut batch = Batch::default();
        inbox.take(&mut batch);
        let [events @ .., Entry::Missed(before), Entry::Gone(1), Entry::Missed(1)] =
            &batch.entries[..]
        else {
            panic!("{} entries", batch.entries.len())
        };
        assert_eq!((events.len(), *before), (MOST, more));
        let name = LockName::new("a", "x".repeat(1 << 20).try_into().unwrap());
        let id = LockId { client_id: ClientId::random(), serial: 2 };
        let long = LookEvent { at: 0, change: Change::Released { name, id } };
        (0..9).for_each(|_| drop(inbox.note(&long)));
        batch.clear();
        inbox.take(&mut batch);
        assert!(matches!(batch.entries[..], [.., Entry::Missed(1)]));
        assert_eq!(batch.entries.len(), 9);
        batch.clear();
        assert_eq!(batch.bytes.capacity(), 0, "it keeps nothing that is so large");
    }
}
