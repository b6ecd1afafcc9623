//! What has happened lately, written once for all who look.
//!
//! Each looker has a place in it up to which it has been told. What all have been told is forgotten. Who
//! does not listen cannot have it grow without bound: when it is full, those are *behind* who have not been
//! told the first of it. They are counted what they miss from then on, until they are told anew what there is.

use std::{collections::VecDeque, sync::Arc};

use bytes::BytesMut;
use navlock_wire::{CodecError, LookChange, LookEvent, Moment, OfName, encode_look_events};
use tokio::sync::Notify;

use super::lookers::Filter;

/// So many events can wait to be told, and about so many bytes of them: names can be long.
const MOST: usize = 1 << 14;
const MOST_BYTES: usize = 8 << 20;

/// About how long a message is, in bytes; one event may be longer. To put it together and to send it takes
/// the daemon some tens of microseconds.
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
    /// How many have ever begun to look.
    begun: u64,
    scratch: BytesMut,
}

/// An event.
struct Noted {
    of: About,
    /// Where it ends, in bytes since the beginning.
    end: u64,
}

/// What an event is about, as far as somebody may look at that alone.
enum About {
    Anything,
    Bucket(Arc<str>),
    Name(OfName),
}

struct Reader {
    id: u64,
    filter: Filter,
    at: At,
    /// From when on it is woken by what happens.
    due: Moment,
    told: Arc<Notify>,
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

impl About {
    fn of(change: &LookChange) -> Self {
        match change {
            LookChange::AgentCame { bucket, .. } => Self::Bucket(Arc::clone(bucket)),
            other => other.of().cloned().map_or(Self::Anything, Self::Name),
        }
    }

    fn is_seen_by(&self, filter: &Filter) -> bool {
        match self {
            Self::Anything => true,
            Self::Bucket(bucket) => filter.has_bucket(bucket),
            Self::Name(of) => filter.has(&of.bucket, &of.name),
        }
    }
}

impl Journal {
    /// Somebody looks, and is told from here on. Its number, by which it is known.
    pub(super) fn begin(&mut self, filter: Filter, told: Arc<Notify>) -> u64 {
        let id = self.begun;
        self.begun += 1;
        self.lookers.push(Reader { id, filter, at: At::End, due: 0, told });
        id
    }

    /// It looks no more.
    pub(super) fn end(&mut self, id: u64) {
        self.lookers.retain(|looker| looker.id != id);
        self.forget_told();
    }

    /// Notes an event that happens now. Those to be woken: who has something to be told, and is due.
    pub(super) fn note(&mut self, event: &LookEvent, now: Moment) -> Vec<Arc<Notify>> {
        self.scratch.clear();
        // It fits into a frame: texts are clipped where they come in, and names are shorter.
        if event.encode(&mut self.scratch).is_err() {
            return Vec::new();
        }
        while self.events.len() >= MOST || self.bytes.len() >= MOST_BYTES {
            self.leave_behind();
        }
        let (number, of) = (self.next(), About::of(&event.change));
        let mut woken = Vec::new();
        for looker in &mut self.lookers {
            match &mut looker.at {
                At::Event(_) => {}
                _ if !of.is_seen_by(&looker.filter) => continue,
                // It is told what there is anyway.
                At::Behind(missed) => *missed += 1,
                at @ At::End => *at = At::Event(number),
            }
            if now >= looker.due {
                woken.push(Arc::clone(&looker.told));
            }
        }
        // FAST: nobody else is told of it.
        if self.lookers.iter().any(|looker| matches!(looker.at, At::Event(_))) {
            self.bytes.extend(&self.scratch);
            let end = self.first.1 + self.bytes.len() as u64;
            self.events.push_back(Noted { of, end });
        }
        woken
    }

    /// The number that the next event will have.
    pub(super) fn next(&self) -> u64 {
        self.first.0 + self.events.len() as u64
    }

    /// This looker is not woken before that.
    pub(super) fn rest(&mut self, id: u64, due: Moment) {
        if let Some(looker) = self.lookers.iter_mut().find(|looker| looker.id == id) {
            looker.due = due;
        }
    }

    /// Whether there is something to tell to this looker.
    pub(super) fn has_news(&self, id: u64) -> bool {
        self.looker(id).is_some_and(|looker| !matches!(looker.at, At::End))
    }

    /// Whether this looker has missed something.
    pub(super) fn is_behind(&self, id: u64) -> bool {
        self.looker(id).is_some_and(|looker| matches!(looker.at, At::Behind(_)))
    }

    /// How much this looker has missed, which it is about to be told.
    pub(super) fn take_missed(&mut self, id: u64) -> u64 {
        let Some(at) = self.at_mut(id) else { return 0 };
        let At::Behind(missed) = *at else { return 0 };
        *at = At::End;
        missed
    }

    /// This looker has seen by itself what has happened until now.
    pub(super) fn skip(&mut self, id: u64) {
        if let Some(at) = self.at_mut(id) {
            *at = At::End;
        }
        self.forget_told();
    }

    /// Appends the message with what this looker is told next, of what is before the event of this number;
    /// nothing if there is nothing. Whether there is more.
    pub(super) fn put_next(
        &mut self,
        id: u64,
        before: u64,
        message: &mut BytesMut,
    ) -> Result<bool, CodecError> {
        let Some(looker) = self.looker(id) else { return Ok(false) };
        let At::Event(mut number) = looker.at else { return Ok(false) };
        let last = before.min(self.next());
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
        if let Some(before) = self.at_mut(id) {
            *before = at;
        }
        self.forget_told();
        Ok(number < last)
    }

    /// Has those be behind who have not been told the first event, and forgets what nobody else waits for.
    fn leave_behind(&mut self) {
        let first = self.first.0;
        let is_slow = |looker: &&mut Reader| matches!(looker.at, At::Event(at) if at <= first);
        for looker in self.lookers.iter_mut().filter(is_slow) {
            let events = self.events.iter();
            let missed = events.filter(|event| event.of.is_seen_by(&looker.filter)).count();
            looker.at = At::Behind(missed as u64);
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

    fn at_mut(&mut self, id: u64) -> Option<&mut At> {
        self.lookers.iter_mut().find(|looker| looker.id == id).map(|looker| &mut looker.at)
    }
}

#[cfg(test)]
mod tests {
    use navlock_wire::{ClientCodec, FromDaemon};
    use tokio_util::codec::Decoder;

    use super::*;

    fn went(client: u64) -> LookEvent {
        LookEvent { at: client, change: LookChange::ClientWent { client } }
    }

    fn of(bucket: &str, name: &str) -> LookEvent {
        let of = OfName { bucket: bucket.into(), name: name.try_into().unwrap() };
        LookEvent { at: 0, change: LookChange::Released(of, ([1; 16], 2)) }
    }

    fn begin(journal: &mut Journal, bucket: Option<&str>, name: Option<&str>) -> u64 {
        let (bucket, name) = (bucket.map(str::to_owned), name.map(|name| name.try_into().unwrap()));
        journal.begin(Filter { bucket, name }, Arc::default())
    }

    /// What a looker is told next, as it hears it.
    fn next(journal: &mut Journal, id: u64, before: u64) -> (Vec<LookEvent>, bool) {
        let mut bytes = BytesMut::new();
        let has_more = journal.put_next(id, before, &mut bytes).unwrap();
        let heard = match ClientCodec::default().decode(&mut bytes).unwrap() {
            Some(FromDaemon::LookEvents { events }) => events,
            None => Vec::new(),
            other => panic!("{other:?}"),
        };
        assert!(bytes.is_empty());
        (heard, has_more)
    }

    fn all(journal: &mut Journal, id: u64) -> Vec<LookEvent> {
        let mut all = Vec::new();
        loop {
            let (heard, has_more) = next(journal, id, u64::MAX);
            all.extend(heard);
            if !has_more {
                return all;
            }
        }
    }

    #[test]
    fn each_is_told_all_that_it_wants_to_see_once_and_in_order_and_then_it_is_forgotten() {
        let mut journal = Journal::default();
        let everything = begin(&mut journal, None, None);
        let bucket = begin(&mut journal, Some("a"), None);
        let name = begin(&mut journal, None, Some("x"));
        let mut told = [Vec::new(), Vec::new(), Vec::new()];
        let mut noted = Vec::new();
        for round in 0..200_u64 {
            // So many that they take several messages, and wrap around in the journal.
            for number in 0..300 {
                let event = match number % 4 {
                    0 => went(round),
                    1 => of("a", "x"),
                    2 => of("a", "y"),
                    _ => of("b", "x"),
                };
                journal.note(&event, 0);
                noted.push(event);
            }
            for (at, id) in [everything, bucket, name].into_iter().enumerate() {
                // At other times than the others.
                if round % (at as u64 + 2) == 0 {
                    told[at].extend(all(&mut journal, id));
                }
            }
        }
        for (at, id) in [everything, bucket, name].into_iter().enumerate() {
            told[at].extend(all(&mut journal, id));
            assert!(!journal.has_news(id));
        }
        let about = |event: &LookEvent| {
            event.change.of().map(|of| (of.bucket.to_string(), of.name.to_string()))
        };
        let wanted = |sees: fn(&str, &str) -> bool| -> Vec<LookEvent> {
            let sees =
                |event: &&LookEvent| about(event).is_none_or(|(bucket, name)| sees(&bucket, &name));
            noted.iter().filter(sees).cloned().collect()
        };
        assert!(told[0] == wanted(|_, _| true));
        assert!(told[1] == wanted(|bucket, _| bucket == "a"));
        assert!(told[2] == wanted(|_, name| name == "x"));
        assert_eq!((journal.events.len(), journal.bytes.len()), (0, 0));
        assert!(journal.bytes.capacity() <= KEPT);
    }

    #[test]
    fn nobody_is_woken_for_what_it_does_not_see_or_before_it_is_due() {
        let mut journal = Journal::default();
        let id = begin(&mut journal, Some("a"), None);
        assert_eq!(journal.note(&of("b", "x"), 5).len(), 0);
        assert_eq!(journal.events.len(), 0, "it is kept for nobody");
        assert_eq!(journal.note(&of("a", "x"), 5).len(), 1);
        all(&mut journal, id);
        journal.rest(id, 10);
        assert_eq!(journal.note(&of("b", "x"), 10).len(), 0);
        assert_eq!(journal.note(&of("a", "x"), 9).len(), 0);
        assert!(journal.has_news(id));
        // By whatever happens then: what it is about has waited.
        assert_eq!(journal.note(&of("b", "x"), 10).len(), 1);
    }

    #[test]
    fn what_happens_after_a_moment_is_not_told_before_it() {
        let mut journal = Journal::default();
        let id = begin(&mut journal, None, None);
        journal.note(&went(1), 0);
        let moment = journal.next();
        journal.note(&went(2), 0);
        assert_eq!(next(&mut journal, id, moment), (vec![went(1)], false));
        assert!(journal.has_news(id));
        assert_eq!(all(&mut journal, id), [went(2)]);
    }

    #[test]
    fn a_message_is_about_so_long_however_much_there_is_to_tell() {
        let mut journal = Journal::default();
        let id = begin(&mut journal, None, None);
        let mut event = BytesMut::new();
        went(1).encode(&mut event).unwrap();
        let fit = PART.div_ceil(event.len());
        (0..=fit).for_each(|_| drop(journal.note(&went(1), 0)));
        let (first, has_more) = next(&mut journal, id, u64::MAX);
        assert_eq!((first.len(), has_more), (fit, true));
        assert_eq!(next(&mut journal, id, u64::MAX), (vec![went(1)], false));
    }

    #[test]
    fn who_is_too_slow_is_told_how_much_it_missed_and_nothing_of_it() {
        let mut journal = Journal::default();
        let slow = begin(&mut journal, None, None);
        let slow_of_few = begin(&mut journal, Some("a"), None);
        let quick = begin(&mut journal, None, None);
        let more = MOST as u64 + 7;
        let mut heard = 0;
        for number in 0..more {
            journal.note(&if number % 2 == 0 { of("a", "x") } else { of("b", "x") }, 0);
            heard += all(&mut journal, quick).len() as u64;
        }
        assert!(journal.is_behind(slow) && journal.is_behind(slow_of_few));
        assert_eq!(next(&mut journal, slow, u64::MAX), (Vec::new(), false));
        assert_eq!(journal.take_missed(slow), more);
        assert_eq!(journal.take_missed(slow_of_few), more.div_ceil(2));
        assert!(!journal.has_news(slow));
        assert_eq!((heard, journal.take_missed(quick)), (more, 0));
        assert_eq!(journal.events.len(), 0);
        journal.note(&went(1), 0);
        assert_eq!(all(&mut journal, slow), [went(1)]);
    }

    #[test]
    fn what_waits_is_bounded_in_bytes_as_well() {
        let mut journal = Journal::default();
        let id = begin(&mut journal, None, None);
        let name = "x".repeat(1 << 20);
        (0..8).for_each(|_| drop(journal.note(&of("a", &name), 0)));
        assert!(!journal.is_behind(id));
        journal.note(&of("a", &name), 0);
        assert_eq!(journal.take_missed(id), 9);
        assert_eq!((journal.events.len(), journal.bytes.len()), (0, 0));
    }

    #[test]
    fn who_goes_keeps_nothing() {
        let mut journal = Journal::default();
        let (gone, stays) = (begin(&mut journal, None, None), begin(&mut journal, None, None));
        journal.note(&went(1), 0);
        all(&mut journal, stays);
        assert_eq!(journal.events.len(), 1);
        journal.end(gone);
        assert_eq!(journal.events.len(), 0);
        journal.note(&went(2), 0);
        assert_eq!(all(&mut journal, stays), [went(2)]);
    }
}
