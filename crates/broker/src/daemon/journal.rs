//! What has happened lately, written once for all who look.
//!
//! Each looker has a place in it up to which it has been told. What all have been told is forgotten. Who
//! does not listen cannot have it grow without bound: when it is full, those are *behind* who have not been
//! told the first of it. They are counted what they miss from then on, until they are told anew what there is.

use std::{collections::VecDeque, mem};

use bytes::BytesMut;
use navlock_wire::{CodecError, encode_look_events};

use super::{
    filter::Filter,
    inbox::{About, Batch, Entry},
};

/// So many events can wait to be told, and about so many bytes of them: names can be long.
const MOST: usize = 1 << 14;
const MOST_BYTES: usize = 8 << 20;

/// About how long a message is, in bytes; one event may be longer.
pub(super) const PART: usize = 32 << 10;

/// How many bytes may stay reserved when nothing waits.
const KEPT: usize = 256 << 10;

/// What has happened, and who has been told how much of it.
#[derive(Default)]
pub(super) struct Journal {
    /// The events as they stand in messages, one behind the other.
    bytes: VecDeque<u8>,
    events: VecDeque<Noted>,
    /// The number of the first of them, and how many bytes were before it.
    first: (u64, u64),
    lookers: Vec<Reader>,
    /// What was taken from the inbox; empty but for its room.
    batch: Batch,
}

/// An event.
struct Noted {
    of: About,
    /// Where it ends, in bytes since the beginning.
    end: u64,
}

struct Reader {
    id: u64,
    filter: Filter,
    at: At,
    /// It is about to be told what there is.
    picture: Option<Picture>,
}

/// What there is, which is put together in several turns of the daemon.
#[derive(Clone, Copy)]
struct Picture {
    /// All before the event of this number is in there. It is told nothing else before it is told that.
    begin: u64,
    /// All before the event of this number belongs to it, once it is whole: some may be in there and some not, so
    /// it is told after it and with it.
    end: Option<u64>,
    /// How much the looker had missed when it was begun.
    missed: u64,
    /// The looker has missed something of what belongs to it.
    is_torn: bool,
}

/// What a looker is to be told.
#[derive(Clone, Copy)]
enum At {
    /// Nothing: it has been told all that it wants to see.
    End,
    /// From the event of this number on. It may be about something else.
    Event(u64),
    /// It was too slow, and has missed so many.
    Behind(u64),
}

impl Reader {
    /// It has missed so many.
    fn fall_behind(&mut self, missed: u64) {
        self.at = At::Behind(missed);
        if let Some(picture) = &mut self.picture {
            picture.is_torn |= picture.end.is_none_or(|end| picture.begin < end);
        }
    }
}

impl Journal {
    /// Enters what has happened since this was done last, which is put into what is empty.
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

    /// Notes an event, of which this is to be said.
    fn note(&mut self, of: About, event: &[u8]) {
        while self.events.len() >= MOST || self.bytes.len() >= MOST_BYTES {
            self.leave_behind();
        }
        let number = self.next();
        for looker in self.lookers.iter_mut().filter(|looker| of.is_seen_by(&looker.filter)) {
            match &mut looker.at {
                At::Event(_) => {}
                // It is told what there is anyway.
                At::Behind(missed) => *missed += 1,
                at @ At::End => *at = At::Event(number),
            }
        }
        // FAST: nobody else is told of it.
        if self.lookers.iter().any(|looker| matches!(looker.at, At::Event(_))) {
            self.bytes.extend(event);
            let end = self.first.1 + self.bytes.len() as u64;
            self.events.push_back(Noted { of, end });
        }
    }

    /// So much has happened that nobody knows what it was: all have missed it.
    fn miss(&mut self, more: u64) {
        let first = self.first.0;
        for looker in &mut self.lookers {
            let before = match looker.at {
                At::End => 0,
                At::Event(_) => untold(&self.events, first, looker),
                At::Behind(missed) => missed,
            };
            looker.fall_behind(before + more);
        }
    }

    /// For this looker it is put together what there is, and what happens from here on is told with that or after
    /// it.
    fn hold(&mut self, id: u64, filter: Filter) {
        let begin = self.next();
        let known = self.lookers.iter().position(|looker| looker.id == id);
        let looker = known.unwrap_or(self.lookers.len());
        if known.is_none() {
            self.lookers.push(Reader { id, filter, at: At::End, picture: None });
        }
        let looker = &mut self.lookers[looker];
        // It was not told the one before, if there was one.
        let mut missed = looker.picture.map_or(0, |before| before.missed);
        if let At::Behind(more) = looker.at {
            looker.at = At::End;
            missed += more;
        }
        looker.picture = Some(Picture { begin, end: None, missed, is_torn: false });
    }

    /// What there is is put together.
    fn complete(&mut self, id: u64) {
        let end = self.next();
        if let Some(Picture { end: place, .. }) =
            self.looker_mut(id).and_then(|looker| looker.picture.as_mut())
        {
            *place = Some(end);
        }
    }

    /// This looker is being told what there is, and goes on from there: appends messages with what happened
    /// while it was put together. How much it had missed before; `None` if it has missed something of that as
    /// well, and so needs another picture.
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
        self.looker(id).is_some_and(|looker| match looker.at {
            At::End => false,
            At::Event(number) => looker.picture.is_none_or(|picture| number < picture.begin),
            At::Behind(_) => true,
        })
    }

    /// Whether this looker has missed something.
    pub(super) fn is_behind(&self, id: u64) -> bool {
        self.looker(id).is_some_and(|looker| matches!(looker.at, At::Behind(_)))
    }

    /// Appends the message with what this looker is told next; nothing if there is nothing. Whether there is
    /// more.
    pub(super) fn put_next(&mut self, id: u64, message: &mut BytesMut) -> Result<bool, CodecError> {
        let Some(looker) = self.looker(id) else { return Ok(false) };
        let At::Event(mut number) = looker.at else { return Ok(false) };
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
        let at = if is_told { At::End } else { At::Event(number) };
        if let Some(looker) = self.looker_mut(id) {
            looker.at = at;
        }
        self.forget_told();
        Ok(number < last)
    }

    /// Has those be behind who have not been told the first event, and forgets what nobody else waits for.
    fn leave_behind(&mut self) {
        let first = self.first.0;
        let is_slow = |looker: &&mut Reader| matches!(looker.at, At::Event(at) if at <= first);
        for looker in self.lookers.iter_mut().filter(is_slow) {
            let missed = untold(&self.events, first, looker);
            looker.fall_behind(missed);
        }
        self.forget_told();
    }

    /// Forgets what all have been told who look.
    fn forget_told(&mut self) {
        let waiting = self.lookers.iter().filter_map(|looker| match looker.at {
            At::Event(number) => Some(number),
            At::End | At::Behind(_) => None,
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

    /// Where an event begins that is here or is the next one.
    fn start(&self, number: u64) -> u64 {
        if number == self.first.0 { self.first.1 } else { self.event(number - 1).end }
    }

    /// An event that is here.
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

/// How many of these events, whose first one has this number, a looker was not told that it wants to see.
fn untold(events: &VecDeque<Noted>, first: u64, looker: &Reader) -> u64 {
    let At::Event(number) = looker.at else { return 0 };
    let told = usize::try_from(number - first).unwrap_or(usize::MAX);
    let is_seen = |event: &&Noted| event.of.is_seen_by(&looker.filter);
    events.iter().skip(told).filter(is_seen).count() as u64
}

#[cfg(test)]
mod tests;
