//! The events that have happened lately in the buckets of one user agent, for those who look.
//!
//! Whoever changes anything in a shard that is looked at puts an event here before it unlocks the
//! shard. So all events are in one order, in which no event comes before its cause. Each moment has
//! a place in this order: an event that comes after a picture was taken is not in the picture.
//!
//! Each reader has a place in this order, up to which it has been told. Events that all readers
//! have been told are forgotten. Nobody waits for a reader: when too many events are kept, the
//! readers that have not been told the first one fall *behind*. For a reader that is behind, only
//! the number of events that it misses is counted, until it gets a picture.

use std::{
    collections::VecDeque,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use slab::Slab;

use crate::{
    look::{Change, Event, LookOptions},
    sync::{Condvar, Mutex, MutexGuard, lock},
};

/// At most this many events wait to be told, and about this many bytes of long names.
const MOST: usize = 1 << 14;
const MOST_BYTES: usize = 8 << 20;

/// A reader is told at most this many events at once, because the reader has the journal locked
/// meanwhile, and everybody who takes a lock waits for the journal.
const PART: usize = 256;

/// How many places for events stay allocated when nothing waits.
const KEPT: usize = 1 << 10;

/// A reader that was told something is not woken for this long, because a thread that takes a lock
/// pays more for the wake-up than for all else that it does for a reader.
const REST: Duration = Duration::from_millis(if cfg!(shuttle) { 0 } else { 1 });

/// The board. Its journal is locked last, after any shard and all else.
#[derive(Debug, Default)]
pub(crate) struct Board {
    journal: Mutex<Journal>,
    /// Notified when a reader has to look at the journal again.
    news: Condvar,
}

#[derive(Debug, Default)]
struct Journal {
    /// The events that some reader has not been told.
    events: VecDeque<Noted>,
    /// About how many bytes the long names of these events take.
    bytes: usize,
    /// How many events there have ever been.
    told: u64,
    readers: Slab<Reader>,
    /// Whether a reader waits that is to be woken by the next event.
    is_waited_for: bool,
}

#[derive(Debug)]
struct Noted {
    bucket: Arc<str>,
    event: Event,
}

#[derive(Debug)]
struct Reader {
    wants: LookOptions,
    next: Next,
    /// When the reader was last told something.
    heard: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The number of the event that the reader is told next, counted from the beginning.
    Event(u64),
    /// The reader is behind, and has missed this many events.
    Behind(u64),
}

/// What a read returns.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The events that have happened, of those that the reader wants to see.
    Events(Vec<Event>),
    /// The reader is behind, and needs a picture.
    Behind,
    /// Nothing until the deadline.
    Nothing,
}

impl LookOptions {
    /// Whether events of this bucket are wanted.
    pub(crate) fn wants_bucket(&self, bucket: &str) -> bool {
        self.bucket.as_deref().is_none_or(|wanted| wanted == bucket)
    }

    fn wants(&self, bucket: &str, change: &Change) -> bool {
        let is_its_name = |name| self.name.as_ref().is_none_or(|wanted| wanted == name);
        self.wants_bucket(bucket) && change.name().is_none_or(|name| is_its_name(&name.name))
    }
}

impl Board {
    /// Puts an event of this bucket here, for all readers who want it. The clock is read once the order of
    /// the event is fixed, so that times never go back.
    pub(crate) fn tell(&self, bucket: &Arc<str>, change: impl FnOnce(Instant) -> Change) {
        let mut journal = lock(&self.journal);
        let at = Instant::now();
        let event = Event { at, change: change(at) };
        let is_news = journal.add(Noted { bucket: Arc::clone(bucket), event });
        let wakes = is_news && std::mem::take(&mut journal.is_waited_for);
        drop(journal);
        if wakes {
            self.news.notify_all();
        }
    }

    /// Adds a reader, which is behind at first: it needs a picture.
    pub(crate) fn add_reader(&self, wants: LookOptions) -> usize {
        let reader = Reader { wants, next: Next::Behind(0), heard: Instant::now() };
        lock(&self.journal).readers.insert(reader)
    }

    /// Forgets a reader. Returns whether it was the last.
    pub(crate) fn remove_reader(&self, key: usize) -> bool {
        let mut journal = lock(&self.journal);
        let removed = journal.readers.try_remove(key);
        journal.forget_told();
        let is_last = journal.readers.is_empty();
        drop(journal);
        drop(removed);
        is_last
    }

    /// The reader gets a picture of this moment. Returns how many events it has missed before. To
    /// be called while everything that the picture shows is locked.
    pub(crate) fn catch_up(&self, key: usize) -> u64 {
        let mut journal = lock(&self.journal);
        let told = journal.told;
        let Some(reader) = journal.readers.get_mut(key) else { return 0 };
        match std::mem::replace(&mut reader.next, Next::Event(told)) {
            Next::Behind(missed) => missed,
            Next::Event(_) => 0,
        }
    }

    /// Waits for something that the reader wants to see, until the deadline.
    pub(crate) fn read(&self, key: usize, deadline: Option<Instant>) -> Heard {
        let mut journal = lock(&self.journal);
        loop {
            let Some(heard) = journal.hear(key) else { return Heard::Nothing };
            let is_up_to_date = match heard {
                Heard::Nothing => true,
                Heard::Events(events) if events.is_empty() => false,
                heard => return heard,
            };
            // The reader goes on even when the deadline has passed. The loop ends all the same,
            // because a reader goes through events faster than they can happen.
            if !is_up_to_date {
                continue;
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Heard::Nothing;
            }
            let rested = journal.readers.get(key).and_then(|reader| reader.heard.checked_add(REST));
            let rests = rested.filter(|rested| *rested > now);
            // Events wake the reader only once it has rested.
            journal.is_waited_for |= rests.is_none();
            let until = match (rests, deadline) {
                (Some(rested), Some(deadline)) => Some(rested.min(deadline)),
                (rested, deadline) => rested.or(deadline),
            };
            journal = self.wait(journal, until.map(|until| until.duration_since(now)));
        }
    }

    fn wait<'a>(
        &self,
        journal: MutexGuard<'a, Journal>,
        time: Option<Duration>,
    ) -> MutexGuard<'a, Journal> {
        // A poisoned mutex is no error: no panic leaves the journal half changed.
        match time {
            None => self.news.wait(journal).unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                let woken = self.news.wait_timeout(journal, time);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }
}

impl Journal {
    /// The number of the first event that is kept.
    fn first(&self) -> u64 {
        self.told - self.events.len() as u64
    }

    /// Keeps the event if some reader has to be told of it. Returns whether there is such a reader.
    fn add(&mut self, noted: Noted) -> bool {
        let mut is_wanted = false;
        for (_, reader) in &mut self.readers {
            if reader.wants.wants(&noted.bucket, &noted.event.change) {
                match &mut reader.next {
                    Next::Event(_) => is_wanted = true,
                    Next::Behind(missed) => *missed += 1,
                }
            }
        }
        if is_wanted {
            self.told += 1;
            self.bytes += noted.size();
            self.events.push_back(noted);
            if self.events.len() > MOST || self.bytes > MOST_BYTES {
                self.leave_behind();
            }
        }
        is_wanted
    }

    /// Makes room: the readers that have not been told the first event fall behind.
    fn leave_behind(&mut self) {
        let first = self.first();
        let Self { events, readers, .. } = self;
        for (_, reader) in
            readers.iter_mut().filter(|(_, reader)| reader.next == Next::Event(first))
        {
            let missed =
                events.iter().filter(|it| reader.wants.wants(&it.bucket, &it.event.change));
            reader.next = Next::Behind(missed.count() as u64);
        }
        self.forget_told();
    }

    /// Forgets the events that have been told to all readers that are not behind.
    fn forget_told(&mut self) {
        let at = |(_, reader): (usize, &Reader)| match reader.next {
            Next::Event(at) => Some(at),
            Next::Behind(_) => None,
        };
        let least = self.readers.iter().filter_map(at).min().unwrap_or(self.told);
        while self.first() < least {
            let Some(noted) = self.events.pop_front() else { break };
            self.bytes -= noted.size();
        }
        if self.events.is_empty() && self.events.capacity() > KEPT {
            self.events = VecDeque::new();
        }
    }

    /// What the reader is told now. If this has no events, the reader wants to see none of the next
    /// part. `None` if there is no such reader.
    fn hear(&mut self, key: usize) -> Option<Heard> {
        let first = self.first();
        let Self { events, readers, told, .. } = self;
        let reader = readers.get_mut(key)?;
        let Next::Event(at) = reader.next else { return Some(Heard::Behind) };
        if at == *told {
            return Some(Heard::Nothing);
        }
        let mut heard = Vec::new();
        let from = usize::try_from(at - first).unwrap_or(usize::MAX);
        for noted in events.iter().skip(from).take(PART) {
            if reader.wants.wants(&noted.bucket, &noted.event.change) {
                heard.push(noted.event.clone());
            }
        }
        reader.next = Next::Event((*told).min(at + PART as u64));
        if !heard.is_empty() {
            reader.heard = Instant::now();
        }
        self.forget_told();
        Some(Heard::Events(heard))
    }
}

impl Noted {
    /// About how many bytes the event has allocated.
    fn size(&self) -> usize {
        let name = self.event.change.name().filter(|name| !name.name.is_short());
        name.map_or(0, |name| name.name.as_bytes().len())
    }
}
