//! The notes of requests that wait inside locks of this bucket.
//!
//! Only requests that have to wait are noted, and only those that are inside a lock. A request is
//! noted when it is in its queue already. So the request that is noted last in a cycle finds the
//! cycle (`deadlock.rs`).
//!
//! A thread that looks locks shards first, and the notes after them. A thread that has locked the
//! notes waits for nothing.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use foldhash::fast::RandomState;

use crate::{backend::Ticket, look::LockId};

/// What is known of requests that wait inside something.
#[derive(Debug, Default)]
pub(super) struct Nested {
    /// The requests that were noted. Some may have been answered by now.
    pub(super) requests: HashMap<Ticket, Noted, RandomState>,
    /// How many notes have been made.
    pub(super) made: u64,
    /// When this many requests are noted, those that were answered are looked for and forgotten.
    pub(super) crowd: usize,
    /// Whether any request was said to [give way](navlock_engine::Patience::GivesWay).
    pub(super) some_give_way: bool,
    /// How many lookers the bucket has, who are told of new notes.
    pub(super) lookers: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Noted {
    pub(super) inside: Vec<LockId>,
    /// How many notes, of any request, were made before the last note of this one.
    pub(super) number: u64,
    /// It was decided that the request fails, and it is about to be finished: nobody waits for it.
    pub(super) is_failing: bool,
}

impl Nested {
    /// What is known of this request.
    pub(super) fn of(&self, ticket: Ticket) -> Option<&Noted> {
        self.requests.get(&ticket)
    }

    /// A moment before `now`, for the note with this number: such moments are in the order of the notes.
    pub(super) fn before(&self, now: Instant, number: u64) -> Instant {
        let ago = Duration::from_nanos(self.made.saturating_sub(number));
        now.checked_sub(ago).unwrap_or(now)
    }
}
