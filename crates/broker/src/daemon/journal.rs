//! The events that have happened lately, kept once for all lookers.
//!
//! Each looker has a place in the journal up to which it has been told. Events that all lookers
//! have been told are forgotten. A looker that does not read cannot make the journal grow without
//! bound. When the journal is full, the lookers that have not been told the first event fall
//! *behind*. From then on, only the number of events that they miss is counted, until they get a
//! new picture.

use std::{collections::VecDeque, mem};

use bytes::BytesMut;
use navlock_wire::{CodecError, encode_look_events};

use super::{
    filter::Filter,
    inbox::{About, Batch, Entry},
};

/// At most this many events wait to be told, and about this many bytes: names can be long.
const MOST: usize = 1 << 14;
const MOST_BYTES: usize = 8 << 20;

/// About how long a message may be, in bytes; one event may be longer.
pub(super) const PART: usize = 32 << 10;

/// How many bytes may stay allocated when nothing waits.
const KEPT: usize = 256 << 10;

/// The events, and how far each looker has been told.
#[derive(Default)]
pub(super) struct Journal {
    /// The events, one after the other, encoded as in messages.
    bytes: VecDeque<u8>,
    events: VecDeque<Noted>,
    /// The number of the first event that is kept, and how many bytes there have been before it.
    first: (u64, u64),
    lookers: Vec<Reader>,
    /// The batch that is swapped with the inbox. In between it is empty, but keeps its memory.
    batch: Batch,
}

/// An event.
struct Noted {
    of: About,
    /// Where the event ends, in bytes since the beginning of all events.
    end: u64,
}

struct Reader {
    id: u64,
    filter: Filter,
    next: Next,
    /// The picture that the looker is about to be sent.
    picture: Option<PendingPicture>,
}

/// A picture, which the daemon makes in several turns.
#[derive(Clone, Copy)]
struct PendingPicture {
    /// The picture contains all that happened before the event of this number. Before the looker
    /// has been sent the picture, it is told no event from this number on.
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
#[derive(Clone, Copy)]
enum Next {
    /// Nothing, because the looker has been told all events that it wants to see.
    End,
    /// The events from this number on. It may not want to see the first of them.
    Event(u64),
    /// Nothing but a new picture, because the looker was too slow and has missed this many events.
    Behind(u64),
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

impl Journal {
    /// Enters the events since the last call. `take` gets an empty batch, and puts the events into
    /// it.
    pub(super) fn enter(&mut self, take: impl FnOnce(&mut Batch)) {
        let mut batch = mem::take(&mut self.batch);
        take(&mut batch);
        let mut start = 0;
        for entry in batch.entries.drain(..) {
            match entry {
                Entry::Event { of, end } => {
                    self.note(of, &batch.bytes[start..end]);
                    start = end;
                }
                Entry::Missed(missed) => self.miss(missed),
                Entry::Picture(id, filter) => self.hold(id, filter),
                Entry::Whole(id) => self.complete(id),
                Entry::Gone(id) => self.lookers.retain(|looker| looker.id != id),
            }
        }
        self.forget_told();
        batch.clear();
        self.batch = batch;
    }

    /// Notes an event: what it is about, and its encoded form.
    fn note(&mut self, of: About, event: &[u8]) {
        while self.events.len() >= MOST || self.bytes.len() >= MOST_BYTES {
            self.leave_behind();
        }
        let number = self.next();
        for looker in self.lookers.iter_mut().filter(|looker| of.is_seen_by(&looker.filter)) {
            match &mut looker.next {
                Next::Event(_) => {}
                // The looker will get a new picture, so the missed events are only counted.
                Next::Behind(missed) => *missed += 1,
                next @ Next::End => *next = Next::Event(number),
            }
        }
        // FAST: an event that no looker wants to see is not kept.
        if self.lookers.iter().any(|looker| matches!(looker.next, Next::Event(_))) {
            self.bytes.extend(event);
            let end = self.first.1 + self.bytes.len() as u64;
            self.events.push_back(Noted { of, end });
        }
    }

    /// Notes that all lookers have missed this many events, for which the inbox had no room.
    fn miss(&mut self, more: u64) {
        let first = self.first.0;
        for looker in &mut self.lookers {
            let before = match looker.next {
                Next::End => 0,
                Next::Event(_) => untold(&self.events, first, looker),
                Next::Behind(missed) => missed,
            };
            looker.fall_behind(before + more);
        }
    }

    /// Notes that a picture is begun for this looker. It is told of events from here on with the
    /// picture or after it.
    fn hold(&mut self, id: u64, filter: Filter) {
        let begin = self.next();
        let known = self.lookers.iter().position(|looker| looker.id == id);
        let looker = known.unwrap_or(self.lookers.len());
        if known.is_none() {
            self.lookers.push(Reader { id, filter, next: Next::End, picture: None });
        }
        let looker = &mut self.lookers[looker];
        // If there is an earlier picture, the looker was not sent that one.
        let mut missed = looker.picture.map_or(0, |before| before.missed);
        if let Next::Behind(more) = looker.next {
            looker.next = Next::End;
            missed += more;
        }
        looker.picture = Some(PendingPicture { begin, end: None, missed, is_torn: false });
    }

    /// Notes that the picture for this looker is complete.
    fn complete(&mut self, id: u64) {
        let end = self.next();
        if let Some(PendingPicture { end: place, .. }) =
            self.looker_mut(id).and_then(|looker| looker.picture.as_mut())
        {
            *place = Some(end);
        }
    }

    /// To be called while this looker is being sent its picture: appends messages with the events that
    /// happened while the picture was made. From then on the looker is told events. Returns how many events
    /// it had missed before. `None` if it has missed some of the appended events as well, and so needs
    /// another picture.
    pub(super) fn go_on(
        &mut self,
        id: u64,
        message: &mut BytesMut,
    ) -> Result<Option<u64>, CodecError> {
        let next = self.next();
        let Some(looker) = self.looker_mut(id) else { return Ok(Some(0)) };
        let Some(picture) = &mut looker.picture else { return Ok(Some(0)) };
        if picture.is_torn {
            return Ok(None);
        }
        let missed = picture.missed;
        picture.begin = picture.end.unwrap_or(next);
        while self.put_next(id, message)? {}
        if let Some(looker) = self.looker_mut(id) {
            looker.picture = None;
        }
        Ok(Some(missed))
    }

    /// The number that the next event will have.
    pub(super) fn next(&self) -> u64 {
        self.first.0 + self.events.len() as u64
    }

    /// Whether there is something to tell to this looker.
    pub(super) fn has_news(&self, id: u64) -> bool {
        self.looker(id).is_some_and(|looker| match looker.next {
            Next::End => false,
            Next::Event(number) => looker.picture.is_none_or(|picture| number < picture.begin),
            Next::Behind(_) => true,
        })
    }

    /// Whether this looker has missed events.
    pub(super) fn is_behind(&self, id: u64) -> bool {
        self.looker(id).is_some_and(|looker| matches!(looker.next, Next::Behind(_)))
    }

    /// Appends a message with the next events for this looker, if there are any. Returns whether there are
    /// more.
    pub(super) fn put_next(&mut self, id: u64, message: &mut BytesMut) -> Result<bool, CodecError> {
        let Some(looker) = self.looker(id) else { return Ok(false) };
        let Next::Event(mut number) = looker.next else { return Ok(false) };
        let last = looker.picture.map_or(self.next(), |picture| picture.begin);
        let (mut runs, mut count, mut room) = (Vec::<(u64, u64)>::new(), 0, PART as u64);
        while number < last && room > 0 {
            let (start, Noted { of, end }) = (self.start(number), self.event(number));
            if of.is_seen_by(&looker.filter) {
                room = room.saturating_sub(end - start);
                count += 1;
                match runs.last_mut() {
                    Some((_, before)) if *before == start => *before = *end,
                    _ => runs.push((start, *end)),
                }
            }
            number += 1;
        }
        let is_told = number == self.next();
        if count > 0 {
            let (front, back) = self.bytes.as_slices();
            let pieces = runs.into_iter().flat_map(|(start, end)| {
                let place = |at: u64| usize::try_from(at - self.first.1).unwrap_or(usize::MAX);
                let (start, end) = (place(start), place(end));
                let split = |at: usize| at.min(front.len());
                let behind = |at: usize| at.saturating_sub(front.len());
                [&front[split(start)..split(end)], &back[behind(start)..behind(end)]]
            });
            encode_look_events(count, pieces, message)?;
        }
        let next = if is_told { Next::End } else { Next::Event(number) };
        if let Some(looker) = self.looker_mut(id) {
            looker.next = next;
        }
        self.forget_told();
        Ok(number < last)
    }

    /// Lets the lookers that have not been told the first event fall behind, and forgets the events for
    /// which no other looker waits.
    fn leave_behind(&mut self) {
        let first = self.first.0;
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
        let first = waiting.min().unwrap_or_else(|| self.next());
        if first == self.first.0 {
            return;
        }
        let before = self.start(first);
        let told = usize::try_from(first - self.first.0).unwrap_or(usize::MAX);
        self.events.drain(..told.min(self.events.len()));
        let bytes = usize::try_from(before - self.first.1).unwrap_or(usize::MAX);
        self.bytes.drain(..bytes.min(self.bytes.len()));
        self.first = (first, before);
        if self.events.is_empty() && self.bytes.capacity() > KEPT {
            (self.bytes, self.events) = (VecDeque::new(), VecDeque::new());
        }
    }

    /// Where an event begins. The event must be kept here, or be the next one.
    fn start(&self, number: u64) -> u64 {
        if number == self.first.0 { self.first.1 } else { self.event(number - 1).end }
    }

    /// The event of this number, which must be kept here.
    fn event(&self, number: u64) -> &Noted {
        &self.events[usize::try_from(number - self.first.0).unwrap_or(usize::MAX)]
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
fn untold(events: &VecDeque<Noted>, first: u64, looker: &Reader) -> u64 {
    let Next::Event(number) = looker.next else { return 0 };
    let told = usize::try_from(number - first).unwrap_or(usize::MAX);
    let is_seen = |event: &&Noted| event.of.is_seen_by(&looker.filter);
    events.iter().skip(told).filter(is_seen).count() as u64
}

#[cfg(test)]
mod tests;
