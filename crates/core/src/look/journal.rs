//! The events that have happened lately, kept once for all lookers.
//!
//! Each looker has a place in the journal up to which it has been told. Events that all lookers
//! have been told are forgotten. Nobody waits for a looker: when the journal is full, the lookers
//! that have not been told the first event fall *behind*. From then on, only the number of events
//! that they miss is counted, until they get a new picture.
//!
//! A journal locks nothing and wakes nobody. Its host does that: the board of a user agent in
//! memory, and the broker.

use std::{collections::VecDeque, sync::Arc};

use super::{Event, LookOptions, event::OVERHEAD};

/// At most this many events wait to be told, and about this many bytes: names can be long.
const MOST: usize = 1 << 14;
const MOST_BYTES: usize = 8 << 20;

/// How many places for events stay allocated when nothing waits.
const KEPT: usize = 1 << 10;

/// The events, and how far each looker has been told. Their times are of the type `At`.
///
/// Calling order: [`begin_picture`](Self::begin_picture) adds a looker. Once all that belongs to the
/// picture was read, [`end_picture`](Self::end_picture) is called, and when the looker is told the
/// picture, [`go_on`](Self::go_on). From then on [`next`](Self::next) tells it what happens. If it
/// [is behind](Self::is_behind), it needs another picture.
#[derive(Debug)]
pub struct Journal<At> {
    /// The events that some looker has not been told.
    events: VecDeque<Noted<At>>,
    /// About how many bytes these events take.
    bytes: usize,
    /// The number of the first of them, counted from the beginning.
    first: u64,
    lookers: Vec<Reader>,
}

/// An event, and the bucket to which it belongs, if the event does not say so itself.
#[derive(Debug)]
struct Noted<At> {
    bucket: Option<Arc<str>>,
    event: Event<At>,
}

#[derive(Debug)]
struct Reader {
    id: u64,
    options: LookOptions,
    next: Next,
    /// The picture that the looker is about to be told.
    picture: Option<PendingPicture>,
}

/// A picture that is being made, perhaps while events happen.
#[derive(Clone, Copy, Debug)]
struct PendingPicture {
    /// The picture contains all that happened before the event of this number. Before the looker
    /// has been told the picture, it is told no event from this number on.
    begin: u64,
    /// Set once the picture is complete: the events before this number belong to the picture. Its entries may
    /// contain some of these events and others not, so all of them are told with the picture, after its
    /// entries.
    end: Option<u64>,
    /// How many events the looker had missed when the picture was begun.
    missed: u64,
    /// Whether the looker has missed an event that belongs to the picture.
    is_torn: bool,
}

/// What a looker is to be told next.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Nothing, because the looker has been told all events that it wants to see.
    End,
    /// The events from this number on. It may not want to see the first of them.
    Event(u64),
    /// Nothing but a new picture, because the looker was too slow and has missed this many events.
    Behind(u64),
}

impl<At> Noted<At> {
    fn is_seen_by(&self, options: &LookOptions) -> bool {
        options.wants(self.bucket.as_deref(), &self.event.change)
    }
}

impl Reader {
    /// Notes that the looker has missed this many events.
    fn fall_behind(&mut self, missed: u64) {
        self.next = Next::Behind(missed);
        if let Some(picture) = &mut self.picture {
            picture.is_torn |= picture.end.is_none_or(|end| picture.begin < end);
        }
    }
}

impl<At: Clone> Journal<At> {
    /// About how many bytes of events a looker is told at once; one event may be longer. Whoever tells the
    /// looker has the journal locked meanwhile.
    pub const PART: usize = 32 << 10;

    /// Notes an event. `bucket` is the bucket to which it belongs, if the event does not say so itself.
    /// Returns whether some looker has to be told.
    pub fn note(&mut self, bucket: Option<Arc<str>>, event: Event<At>) -> bool {
        let (number, noted) = (self.end(), Noted { bucket, event });
        let is_told = |looker: &Reader| {
            !matches!(looker.next, Next::Behind(_)) && noted.is_seen_by(&looker.options)
        };
        while (self.events.len() >= MOST || self.bytes >= MOST_BYTES)
            && self.lookers.iter().any(is_told)
        {
            self.leave_behind();
        }
        let mut is_wanted = false;
        for looker in self.lookers.iter_mut().filter(|looker| noted.is_seen_by(&looker.options)) {
            match &mut looker.next {
                Next::Event(_) => is_wanted = true,
                // The looker will get a new picture, so the missed events are only counted.
                Next::Behind(missed) => *missed += 1,
                next @ Next::End => (*next, is_wanted) = (Next::Event(number), true),
            }
        }
        // What nobody wants to see takes no room, and makes nobody fall behind.
        if is_wanted {
            self.bytes += noted.event.size();
            self.events.push_back(noted);
        }
        is_wanted
    }

    /// Notes that all lookers have missed this many events, for which the host had no room.
    pub fn miss(&mut self, more: u64) {
        let first = self.first;
        for looker in &mut self.lookers {
            let before = match looker.next {
                Next::End => 0,
                Next::Event(_) => untold(&self.events, first, looker),
                Next::Behind(missed) => missed,
            };
            looker.fall_behind(before + more);
        }
        self.forget_told();
    }

    /// Notes that a picture is begun for this looker, which may be new. It is told of events from here on with
    /// the picture or after it.
    pub fn begin_picture(&mut self, id: u64, options: &LookOptions) {
        let begin = self.end();
        let known = self.lookers.iter().position(|looker| looker.id == id);
        let looker = known.unwrap_or(self.lookers.len());
        if known.is_none() {
            let options = options.clone();
            self.lookers.push(Reader { id, options, next: Next::End, picture: None });
        }
        let looker = &mut self.lookers[looker];
        // If there is an earlier picture, the looker was not told that one.
        let mut missed = looker.picture.map_or(0, |before| before.missed);
        if let Next::Behind(more) = looker.next {
            looker.next = Next::End;
            missed += more;
        }
        looker.picture = Some(PendingPicture { begin, end: None, missed, is_torn: false });
    }

    /// Notes that the picture for this looker is complete.
    pub fn end_picture(&mut self, id: u64) {
        let now = self.end();
        if let Some(picture) = self.looker_mut(id).and_then(|looker| looker.picture.as_mut()) {
            picture.end = Some(now);
        }
    }

    /// To be called when this looker is told its picture: from then on it is told events. Returns how many
    /// events it had missed before, and the events that happened while the picture was made, which belong to
    /// it. `None` if it has missed some of these as well, and so needs another picture.
    pub fn go_on(&mut self, id: u64) -> Option<(u64, Vec<Event<At>>)> {
        let (now, mut meanwhile) = (self.end(), Vec::new());
        let Some(picture) = self.looker_mut(id).and_then(|looker| looker.picture.as_mut()) else {
            return Some((0, meanwhile));
        };
        if picture.is_torn {
            return None;
        }
        let missed = picture.missed;
        picture.begin = picture.end.unwrap_or(now);
        loop {
            let (events, has_more) = self.next(id);
            meanwhile.extend(events);
            if !has_more {
                break;
            }
        }
        if let Some(looker) = self.looker_mut(id) {
            looker.picture = None;
        }
        Some((missed, meanwhile))
    }

    /// Whether there is something to tell to this looker.
    pub fn has_news(&self, id: u64) -> bool {
        self.looker(id).is_some_and(|looker| match looker.next {
            Next::End => false,
            Next::Event(number) => looker.picture.is_none_or(|picture| number < picture.begin),
            Next::Behind(_) => true,
        })
    }

    /// Whether this looker has missed events.
    pub fn is_behind(&self, id: u64) -> bool {
        self.looker(id).is_some_and(|looker| matches!(looker.next, Next::Behind(_)))
    }

    /// The next events for this looker, about as many as [`Self::PART`] says, and whether there are more. There may
    /// be more if it wants to see none of the next ones.
    pub fn next(&mut self, id: u64) -> (Vec<Event<At>>, bool) {
        let (first, end) = (self.first, self.end());
        let (mut told, mut room) = (Vec::new(), Self::PART);
        let Self { events, lookers, .. } = self;
        let Some(looker) = lookers.iter_mut().find(|looker| looker.id == id) else {
            return (told, false);
        };
        let Next::Event(mut number) = looker.next else { return (told, false) };
        let last = looker.picture.map_or(end, |picture| picture.begin);
        for noted in events.iter().skip(place(number, first)) {
            if number >= last || room == 0 {
                break;
            }
            let is_wanted = noted.is_seen_by(&looker.options);
            let taken = if is_wanted { noted.event.size() } else { OVERHEAD };
            room = room.saturating_sub(taken);
            told.extend(is_wanted.then(|| noted.event.clone()));
            number += 1;
        }
        looker.next = if number == end { Next::End } else { Next::Event(number) };
        self.forget_told();
        (told, number < last)
    }

    /// Forgets a looker.
    pub fn remove(&mut self, id: u64) {
        self.lookers.retain(|looker| looker.id != id);
        self.forget_told();
    }

    /// Whether nobody looks.
    pub fn is_empty(&self) -> bool {
        self.lookers.is_empty()
    }

    /// The number that the next event will have.
    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Lets the lookers that have not been told the first event fall behind, and forgets the events for
    /// which no other looker waits.
    fn leave_behind(&mut self) {
        let first = self.first;
        let is_slow = |looker: &&mut Reader| matches!(looker.next, Next::Event(at) if at <= first);
        for looker in self.lookers.iter_mut().filter(is_slow) {
            let missed = untold(&self.events, first, looker);
            looker.fall_behind(missed);
        }
        self.forget_told();
    }

    /// Forgets the events that all lookers have been told.
    fn forget_told(&mut self) {
        let waiting = self.lookers.iter().filter_map(|looker| match looker.next {
            Next::Event(number) => Some(number),
            Next::End | Next::Behind(_) => None,
        });
        let first = waiting.min().unwrap_or_else(|| self.end());
        let told = self.events.drain(..place(first, self.first));
        self.bytes -= told.map(|noted| noted.event.size()).sum::<usize>();
        self.first = first;
        if self.events.is_empty() && self.events.capacity() > KEPT {
            self.events = VecDeque::new();
        }
    }

    fn looker(&self, id: u64) -> Option<&Reader> {
        self.lookers.iter().find(|looker| looker.id == id)
    }

    fn looker_mut(&mut self, id: u64) -> Option<&mut Reader> {
        self.lookers.iter_mut().find(|looker| looker.id == id)
    }
}

/// How many of these events the looker wants to see and was not told. `first` is the number of the
/// first event.
fn untold<At>(events: &VecDeque<Noted<At>>, first: u64, looker: &Reader) -> u64 {
    let Next::Event(number) = looker.next else { return 0 };
    let untold = events.iter().skip(place(number, first));
    untold.filter(|noted| noted.is_seen_by(&looker.options)).count() as u64
}

/// The place of the event of this number, if the first one has the number `first`.
fn place(number: u64, first: u64) -> usize {
    usize::try_from(number - first).unwrap_or(usize::MAX)
}

impl<At> Default for Journal<At> {
    fn default() -> Self {
        Self { events: VecDeque::new(), bytes: 0, first: 0, lookers: Vec::new() }
    }
}

#[cfg(test)]
mod tests;
