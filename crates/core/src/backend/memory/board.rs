//! The board: tells those who look what has happened lately in the buckets of one user agent.
//!
//! Whoever changes anything in a shard that is looked at puts an event here before it unlocks the
//! shard. So all events are in one order, in which no event comes before its cause. Each moment has
//! a place in this order: an event that comes after a picture was taken is not in the picture.

use std::{
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    look::{Change, Event, LookOptions, journal::Journal},
    sync::{Condvar, Mutex, MutexGuard, lock},
};

/// A reader that was told something is not woken for this long, because a thread that takes a lock
/// pays more for the wake-up than for all else that it does for a reader.
const REST: Duration = Duration::from_millis(if cfg!(shuttle) { 0 } else { 1 });

/// The board. Its journal is locked last, after any shard and all else.
#[derive(Debug, Default)]
pub(crate) struct Board {
    state: Mutex<State>,
    /// Notified when a reader has to look at the journal again.
    news: Condvar,
}

#[derive(Debug, Default)]
struct State {
    journal: Journal<Instant>,
    /// How many readers there have ever been.
    begun: u64,
    /// Whether a reader waits that is to be woken by the next event.
    is_waited_for: bool,
}

/// One who reads the board.
#[derive(Debug)]
pub(crate) struct Reader {
    board: Arc<Board>,
    id: u64,
    /// When the reader was last told something.
    heard: Instant,
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

impl Board {
    /// Puts an event of this bucket here, for all readers who want it. The clock is read once the order of
    /// the event is fixed, so that times never go back.
    pub(crate) fn tell(&self, bucket: &Arc<str>, change: impl FnOnce(Instant) -> Change) {
        let mut state = lock(&self.state);
        let at = Instant::now();
        let is_news =
            state.journal.note(Some(Arc::clone(bucket)), Event { at, change: change(at) });
        let wakes = is_news && std::mem::take(&mut state.is_waited_for);
        drop(state);
        if wakes {
            self.news.notify_all();
        }
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        time: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        // A poisoned mutex is no error: no panic leaves the journal half changed.
        match time {
            None => self.news.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                let woken = self.news.wait_timeout(state, time);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }
}

impl Reader {
    /// A reader, which is told nothing before it has [a picture](Self::catch_up).
    pub(crate) fn new(board: Arc<Board>) -> Self {
        let mut state = lock(&board.state);
        let id = state.begun;
        state.begun += 1;
        drop(state);
        Self { board, id, heard: Instant::now() }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Forgets the reader. Returns whether it was the last.
    pub(crate) fn end(self) -> bool {
        let mut state = lock(&self.board.state);
        state.journal.remove(self.id);
        state.journal.is_empty()
    }

    /// The reader gets a picture of this moment. Returns how many events it has missed before. To
    /// be called while everything that the picture shows is locked.
    pub(crate) fn catch_up(&self, wants: &LookOptions) -> u64 {
        let mut state = lock(&self.board.state);
        state.journal.begin_picture(self.id, wants);
        let missed = state.journal.go_on(self.id).map(|(missed, _)| missed);
        missed.expect("nothing can be missed between two lines under one lock")
    }

    /// Waits for something that the reader wants to see, until the deadline.
    pub(crate) fn read(&mut self, deadline: Option<Instant>) -> Heard {
        let mut state = lock(&self.board.state);
        loop {
            if state.journal.is_behind(self.id) {
                return Heard::Behind;
            }
            // The reader goes on even when the deadline has passed. The loop ends all the same,
            // because a reader goes through events faster than they can happen.
            let (events, has_more) = state.journal.next(self.id);
            if !events.is_empty() {
                self.heard = Instant::now();
                return Heard::Events(events);
            }
            if has_more {
                continue;
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Heard::Nothing;
            }
            let rests = self.heard.checked_add(REST).filter(|rested| *rested > now);
            // Events wake the reader only once it has rested.
            state.is_waited_for |= rests.is_none();
            let until = match (rests, deadline) {
                (Some(rested), Some(deadline)) => Some(rested.min(deadline)),
                (rested, deadline) => rested.or(deadline),
            };
            state = self.board.wait(state, until.map(|until| until.duration_since(now)));
        }
    }
}
