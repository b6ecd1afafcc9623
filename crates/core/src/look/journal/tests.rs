//! Tests of `journal.rs`.

use super::*;
use crate::{
    ClientId,
    look::{Change, LockId, LockName},
};

type Event = super::Event<u64>;

/// A journal, whose lookers are numbered.
#[derive(Default)]
struct Book {
    journal: Journal<u64>,
    begun: u64,
}

fn options(bucket: Option<&str>, name: Option<&str>) -> LookOptions {
    let bucket = bucket.map(str::to_owned);
    let name = name.map(|name| name.try_into().unwrap());
    LookOptions { bucket, name, once: false }
}

impl Book {
    /// Begins a look, whose looker has been told what there is.
    fn begin(&mut self, bucket: Option<&str>, name: Option<&str>) -> u64 {
        let id = self.begun;
        self.begun += 1;
        self.hold(id, bucket, name);
        assert_eq!(self.go_on(id), Some(0));
        id
    }

    fn hold(&mut self, id: u64, bucket: Option<&str>, name: Option<&str>) {
        self.journal.begin_picture(id, &options(bucket, name));
        self.journal.end_picture(id);
    }

    /// Has a looker go on after it was told what there is. Returns how many events it has missed,
    /// or `None` if it must be told once more. Nothing must have happened meanwhile.
    fn go_on(&mut self, id: u64) -> Option<u64> {
        let (missed, meanwhile) = self.journal.go_on(id)?;
        assert_eq!(meanwhile, []);
        Some(missed)
    }

    fn note(&mut self, event: Event) {
        self.journal.note(None, event);
    }

    fn all(&mut self, id: u64) -> Vec<Event> {
        let mut all = Vec::new();
        loop {
            let (heard, has_more) = self.journal.next(id);
            all.extend(heard);
            if !has_more {
                return all;
            }
        }
    }

    fn is_empty(&mut self) -> bool {
        self.journal.events.is_empty() && self.journal.bytes == 0
    }
}

fn went(client: u64) -> Event {
    Event { at: client, change: Change::ClientWent { client } }
}

fn of(bucket: &str, name: &str) -> Event {
    let name = LockName::new(bucket, name.try_into().unwrap());
    let id = LockId { client_id: ClientId::from_bytes([1; 16]), serial: 2 };
    Event { at: 0, change: Change::Released { name, id } }
}

#[test]
fn each_is_told_all_that_it_wants_to_see_once_and_in_order_and_then_it_is_forgotten() {
    let mut book = Book::default();
    let everything = book.begin(None, None);
    let bucket = book.begin(Some("a"), None);
    let name = book.begin(None, Some("x"));
    let mut told = [Vec::new(), Vec::new(), Vec::new()];
    let mut noted = Vec::new();
    for round in 0..200_u64 {
        // There are so many events that they take several messages, and wrap around in the journal.
        for number in 0..300 {
            let event = match number % 4 {
                0 => went(round),
                1 => of("a", "x"),
                2 => of("a", "y"),
                _ => of("b", "x"),
            };
            book.note(event.clone());
            noted.push(event);
        }
        for (at, id) in [everything, bucket, name].into_iter().enumerate() {
            // Each looker is told at other times than the others.
            if round % (at as u64 + 2) == 0 {
                told[at].extend(book.all(id));
            }
        }
    }
    for (at, id) in [everything, bucket, name].into_iter().enumerate() {
        told[at].extend(book.all(id));
        assert!(!book.journal.has_news(id));
    }
    let about =
        |event: &Event| event.change.name().map(|of| (of.bucket.to_string(), of.name.to_string()));
    let wanted = |sees: fn(&str, &str) -> bool| -> Vec<Event> {
        let sees = |event: &&Event| about(event).is_none_or(|(bucket, name)| sees(&bucket, &name));
        noted.iter().filter(sees).cloned().collect()
    };
    assert!(told[0] == wanted(|_, _| true));
    assert!(told[1] == wanted(|bucket, _| bucket == "a"));
    assert!(told[2] == wanted(|_, name| name == "x"));
    assert!(book.is_empty());
    assert!(book.journal.events.capacity() <= KEPT);
}

#[test]
fn an_event_that_no_looker_wants_is_no_news_and_is_not_kept() {
    let mut book = Book::default();
    let id = book.begin(Some("a"), None);
    book.note(of("b", "x"));
    assert!(!book.journal.has_news(id));
    assert!(book.is_empty());
    book.note(of("a", "x"));
    assert!(book.journal.has_news(id));
}

#[test]
fn events_before_a_picture_are_told_before_it_and_later_events_after_it() {
    let mut book = Book::default();
    let id = book.begin(None, None);
    book.note(went(1));
    book.hold(id, None, None);
    book.note(went(2));
    assert_eq!(book.all(id), [went(1)]);
    // Before the looker is told what there is, it is told no events, however many happen.
    book.note(went(3));
    assert!(!book.journal.has_news(id));
    assert_eq!(book.all(id), []);
    assert_eq!(book.go_on(id), Some(0));
    assert_eq!(book.all(id), [went(2), went(3)]);
    assert!(book.is_empty());
}

#[test]
fn a_message_is_about_so_long_however_much_there_is_to_tell() {
    let mut book = Book::default();
    let id = book.begin(None, None);
    let fit = Journal::<u64>::PART.div_ceil(went(1).size());
    (0..=fit).for_each(|_| book.note(went(1)));
    let (first, has_more) = book.journal.next(id);
    assert_eq!((first.len(), has_more), (fit, true));
    assert_eq!(book.journal.next(id), (vec![went(1)], false));
}

#[test]
fn a_slow_looker_is_told_only_how_many_events_it_missed() {
    let mut book = Book::default();
    let slow = book.begin(None, None);
    let slow_of_few = book.begin(Some("a"), None);
    let quick = book.begin(None, None);
    let more = MOST as u64 + 7;
    let mut heard = 0;
    for number in 0..more {
        book.note(if number % 2 == 0 { of("a", "x") } else { of("b", "x") });
        heard += book.all(quick).len() as u64;
    }
    assert!(book.journal.is_behind(slow) && book.journal.is_behind(slow_of_few));
    assert_eq!(book.journal.next(slow), (Vec::new(), false));
    book.hold(slow, None, None);
    book.hold(slow_of_few, Some("a"), None);
    book.hold(quick, None, None);
    assert_eq!(book.go_on(slow), Some(more));
    assert_eq!(book.go_on(slow_of_few), Some(more.div_ceil(2)));
    assert_eq!((heard, book.go_on(quick)), (more, Some(0)));
    assert!(!book.journal.has_news(slow));
    assert!(book.is_empty());
    book.note(went(1));
    assert_eq!(book.all(slow), [went(1)]);
}

#[test]
fn events_without_room_were_missed_by_all_lookers() {
    let mut book = Book::default();
    let (told, waits) = (book.begin(None, None), book.begin(Some("a"), None));
    book.note(of("a", "x"));
    book.all(told);
    book.journal.miss(3);
    book.note(went(1));
    assert!(book.journal.is_behind(told) && book.journal.is_behind(waits));
    for (id, bucket, missed) in [(told, None, 4), (waits, Some("a"), 5)] {
        book.hold(id, bucket, None);
        assert_eq!(book.go_on(id), Some(missed));
    }
    assert!(book.is_empty());
}

#[test]
fn a_looker_that_falls_behind_before_its_picture_is_told_gets_another_picture() {
    let mut book = Book::default();
    let id = book.begin(None, None);
    book.hold(id, None, None);
    book.journal.miss(3);
    assert_eq!(book.go_on(id), Some(0));
    assert!(book.journal.is_behind(id));
    book.hold(id, None, None);
    assert_eq!(book.go_on(id), Some(3));
}

#[test]
fn events_during_the_making_of_a_picture_belong_to_the_picture() {
    let mut book = Book::default();
    let (id, other) = (book.begin(None, None), book.begin(None, None));
    book.note(went(1));
    book.journal.begin_picture(id, &LookOptions::default());
    book.note(went(2));
    book.note(went(3));
    book.journal.end_picture(id);
    book.note(went(4));
    // Before it, with it, after it.
    assert_eq!(book.all(id), [went(1)]);
    assert!(!book.journal.has_news(id));
    assert_eq!(book.journal.go_on(id), Some((0, vec![went(2), went(3)])));
    assert_eq!(book.all(id), [went(4)]);
    assert_eq!(book.all(other), (1..=4).map(went).collect::<Vec<_>>());
    assert!(book.is_empty());
}

#[test]
fn a_looker_that_misses_part_of_its_picture_gets_a_new_picture() {
    for more in [3, MOST as u64] {
        let mut book = Book::default();
        let id = book.begin(None, None);
        book.journal.begin_picture(id, &LookOptions::default());
        book.note(went(1));
        if more < MOST as u64 {
            book.journal.miss(more);
        } else {
            // These are more events than the journal keeps.
            (0..more).for_each(|_| book.note(went(2)));
        }
        book.journal.end_picture(id);
        assert_eq!(book.go_on(id), None);
        assert!(book.journal.is_behind(id));
        book.hold(id, None, None);
        assert_eq!(book.go_on(id), Some(1 + more));
        assert!(!book.journal.is_behind(id));
    }
}

#[test]
fn waiting_events_are_bounded_in_bytes_as_well() {
    let mut book = Book::default();
    let id = book.begin(None, None);
    let name = "x".repeat(1 << 20);
    for _ in 0..8 {
        book.note(of("a", &name));
        assert!(!book.journal.is_behind(id));
    }
    book.note(of("a", &name));
    assert!(book.journal.is_behind(id));
    book.hold(id, None, None);
    assert_eq!(book.go_on(id), Some(9));
    assert!(book.is_empty());
}

#[test]
fn a_looker_that_goes_keeps_no_events() {
    let mut book = Book::default();
    let (gone, stays) = (book.begin(None, None), book.begin(None, None));
    book.note(went(1));
    book.all(stays);
    assert!(!book.is_empty());
    book.journal.remove(gone);
    assert!(book.is_empty());
    book.note(went(2));
    assert_eq!(book.all(stays), [went(2)]);
}

#[test]
fn what_a_looker_does_not_want_to_see_does_not_make_it_fall_behind() {
    let mut book = Book::default();
    let name = book.begin(None, Some("x"));
    book.note(of("a", "x"));
    for _ in 0..2 * MOST {
        book.note(of("a", "y"));
    }
    assert!(!book.journal.is_behind(name));
    assert_eq!(book.journal.events.len(), 1);
    assert_eq!(book.all(name), [of("a", "x")]);
}

#[test]
fn a_full_journal_counts_for_a_looker_what_it_misses() {
    let mut book = Book::default();
    let slow = book.begin(None, Some("x"));
    let other = book.begin(None, Some("y"));
    for _ in 0..MOST {
        book.note(of("a", "x"));
    }
    book.note(of("a", "y"));
    assert!(book.journal.is_behind(slow) && !book.journal.is_behind(other));
    book.note(of("a", "x"));
    book.hold(slow, None, Some("x"));
    assert_eq!(book.go_on(slow), Some(MOST as u64 + 1));
    assert_eq!(book.all(other), [of("a", "y")]);
}

#[test]
fn what_is_told_at_once_fits_a_message_however_long_the_names_of_buckets_are() {
    let mut book = Book::default();
    let looker = book.begin(None, None);
    let bucket = "b".repeat(64 << 10);
    for _ in 0..100 {
        book.note(of(&bucket, "x"));
    }
    let (heard, has_more) = book.journal.next(looker);
    assert_eq!((heard.len(), has_more), (1, true));
    assert_eq!(book.all(looker).len(), 99);
}
