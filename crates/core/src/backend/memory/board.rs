//! What has happened lately in the buckets of one user agent, for those who look.
//!
//! Whoever changes anything in a shard that is looked at says so here before it unlocks the shard. So all
//! that is told is in one order, in which nothing comes before what brought it about, and each moment has a
//! place in it: what is told after a picture was taken is not in the picture.
//!
//! Each reader has a place up to which it has been told; what all have been told is forgotten. Nobody waits
//! for a reader: when too much is to be told, those are *behind* who have not been told the first of it. They are
//! counted what they miss, until they have a picture again.

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

/// So many events can wait to be told, and about so many bytes of long names.
const MOST: usize = 1 << 14;
const MOST_BYTES: usize = 8 << 20;

/// So many are told at once. Meanwhile those who lock wait for the journal.
const PART: usize = 256;

/// How many places for events stay allocated when nothing waits.
const KEPT: usize = 1 << 10;

/// For so long after it was told something a reader is not woken: to wake a thread costs those who lock
/// more than all the rest.
const REST: Duration = Duration::from_millis(if cfg!(shuttle) { 0 } else { 1 });

/// Where it is said what happens. Locked last, after any shard and all else.
#[derive(Debug, Default)]
pub(crate) struct Board {
    journal: Mutex<Journal>,
    /// Somebody is to look at the journal again.
    news: Condvar,
}

#[derive(Debug, Default)]
struct Journal {
    /// What some reader has not been told.
    events: VecDeque<Noted>,
    /// About how many bytes of names are in there.
    bytes: usize,
    /// How many there have ever been in there.
    told: u64,
    readers: Slab<Reader>,
    /// Whether a reader waits, and is to be woken.
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
    at: At,
    /// When it was told something last.
    heard: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// It is told this one next, counted from the beginning.
    Event(u64),
    /// It has missed so many.
    Behind(u64),
}

/// What a reader hears.
#[derive(Debug)]
pub(crate) enum Heard {
    /// This has happened, of what it wants to see.
    Events(Vec<Event>),
    /// It is behind, and needs a picture.
    Behind,
    /// Nothing until then.
    Nothing,
}

impl LookOptions {
    /// Whether it is wanted what happens in this bucket.
    pub(crate) fn wants_bucket(&self, bucket: &str) -> bool {
        self.bucket.as_deref().is_none_or(|wanted| wanted == bucket)
    }

    fn wants(&self, bucket: &str, change: &Change) -> bool {
        let is_its_name = |name| self.name.as_ref().is_none_or(|wanted| wanted == name);
        self.wants_bucket(bucket) && change.name().is_none_or(|name| is_its_name(&name.name))
    }
}

impl Board {
    /// Says what happens, in this bucket, to all who want to know. The clock is read once it is known what
    /// comes before.
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

    /// A new reader, which is behind: it needs a picture.
    pub(crate) fn add_reader(&self, wants: LookOptions) -> usize {
        let reader = Reader { wants, at: At::Behind(0), heard: Instant::now() };
        lock(&self.journal).readers.insert(reader)
    }

    /// Forgets a reader. Whether it was the last.
    pub(crate) fn remove_reader(&self, key: usize) -> bool {
        let mut journal = lock(&self.journal);
        let removed = journal.readers.try_remove(key);
        journal.forget_told();
        let is_last = journal.readers.is_empty();
        drop(journal);
        drop(removed);
        is_last
    }

    /// The reader has a picture of this moment: how many events it has missed before. To be called while
    /// all is locked that the picture is of.
    pub(crate) fn catch_up(&self, key: usize) -> u64 {
        let mut journal = lock(&self.journal);
        let told = journal.told;
        let Some(reader) = journal.readers.get_mut(key) else { return 0 };
        match std::mem::replace(&mut reader.at, At::Event(told)) {
            At::Behind(missed) => missed,
            At::Event(_) => 0,
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
            // Also when it is late: it is done sooner than more can happen.
            if !is_up_to_date {
                continue;
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Heard::Nothing;
            }
            let rested = journal.readers.get(key).and_then(|reader| reader.heard.checked_add(REST));
            let rests = rested.filter(|rested| *rested > now);
            // It is woken only if it has rested.
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
        // As for all that is locked here: it is whole, whatever happened to whom.
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
    /// Which event is the first that is kept.
    fn first(&self) -> u64 {
        self.told - self.events.len() as u64
    }

    /// Notes what happens, if anybody is to be told: whether it is so.
    fn add(&mut self, noted: Noted) -> bool {
        let mut is_wanted = false;
        for (_, reader) in &mut self.readers {
            if reader.wants.wants(&noted.bucket, &noted.event.change) {
                match &mut reader.at {
                    At::Event(_) => is_wanted = true,
                    At::Behind(missed) => *missed += 1,
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

    /// There is no room: those are behind who have not been told the first.
    fn leave_behind(&mut self) {
        let first = self.first();
        let Self { events, readers, .. } = self;
        for (_, reader) in readers.iter_mut().filter(|(_, reader)| reader.at == At::Event(first)) {
            let missed =
                events.iter().filter(|it| reader.wants.wants(&it.bucket, &it.event.change));
            reader.at = At::Behind(missed.count() as u64);
        }
        self.forget_told();
    }

    /// Forgets what all have been told who are not behind.
    fn forget_told(&mut self) {
        let at = |(_, reader): (usize, &Reader)| match reader.at {
            At::Event(at) => Some(at),
            At::Behind(_) => None,
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

    /// What the reader is to hear now: of the next part nothing, if it wants to see nothing of that. `None`
    /// if there is no such reader.
    fn hear(&mut self, key: usize) -> Option<Heard> {
        let first = self.first();
        let Self { events, readers, told, .. } = self;
        let reader = readers.get_mut(key)?;
        let At::Event(at) = reader.at else { return Some(Heard::Behind) };
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
        reader.at = At::Event((*told).min(at + PART as u64));
        if !heard.is_empty() {
            reader.heard = Instant::now();
        }
        self.forget_told();
        Some(Heard::Events(heard))
    }
}

impl Noted {
    /// About how many bytes it has elsewhere.
    fn size(&self) -> usize {
        let name = self.event.change.name().filter(|name| !name.name.is_short());
        name.map_or(0, |name| name.name.as_bytes().len())
    }
}
