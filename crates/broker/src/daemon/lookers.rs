//! Those who look: each is told what there is, and from then on what happens.
//!
//! While nobody looks, an event costs one load. While somebody does, it is written once, into a journal
//! from which all are told.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::BytesMut;
use navlock_core::ResourceName;
use navlock_wire::{CodecError, LookChange, LookEvent, Moment};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use super::{counts::Counts, journal::Journal};
use crate::clock;

/// How long events are gathered before they are said, in nanoseconds: to send each by itself would cost as
/// much as what it tells of. A person would not see the difference if it were longer. But then there would be
/// more to take in at a time, and that is how long who looks may keep others from a CPU.
const GATHER: u64 = 10_000_000;

/// After so long what waits is told by the clock. Mostly something else has happened by then, and it was told by
/// that, so that the daemon has no timer that is close: the kernel would set it anew whenever the daemon has
/// nothing to do.
const LATEST: Duration = Duration::from_millis(40);

/// How often it is looked what owners have done without a word.
pub(super) const LOOK: Duration = Duration::from_millis(250);

/// All who look.
pub(super) struct Lookers {
    /// How many there are.
    count: AtomicUsize,
    /// What is told to nobody and counted for all.
    counts: Counts,
    journal: Mutex<Journal>,
    /// When it was looked last what owners have done.
    looked: Mutex<Option<Instant>>,
    /// A request was said to be made inside a lock.
    nested: Notify,
}

/// What somebody wants to see.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) bucket: Option<String>,
    pub(super) name: Option<ResourceName>,
}

/// Somebody who looks.
pub(super) struct Looker {
    lookers: Arc<Lookers>,
    filter: Filter,
    /// Its number in the journal.
    id: u64,
    /// There is something to tell.
    told: Arc<Notify>,
}

impl Filter {
    /// Whether something of this bucket and name is to be seen.
    pub(super) fn has(&self, bucket: &str, name: &ResourceName) -> bool {
        self.has_bucket(bucket) && self.name.as_ref().is_none_or(|wanted| wanted == name)
    }

    pub(super) fn has_bucket(&self, bucket: &str) -> bool {
        self.bucket.as_ref().is_none_or(|wanted| wanted == bucket)
    }
}

impl Default for Lookers {
    fn default() -> Self {
        Self {
            count: AtomicUsize::new(0),
            counts: Counts::default(),
            journal: Mutex::default(),
            looked: Mutex::default(),
            nested: Notify::new(),
        }
    }
}

impl Lookers {
    /// Somebody looks, until this is dropped.
    pub(super) fn add(self: &Arc<Self>, filter: Filter) -> Looker {
        let told = Arc::new(Notify::new());
        let id = self.journal().begin(filter.clone(), Arc::clone(&told));
        self.count.fetch_add(1, Relaxed);
        Looker { lookers: Arc::clone(self), filter, id, told }
    }

    /// A request was said to be made inside a lock.
    pub(super) fn note_nested(&self) {
        self.nested.notify_one();
    }

    /// Until a request was said so since this was asked last.
    pub(super) async fn somebody_is_nested(&self) {
        self.nested.notified().await;
    }

    /// Whether anybody looks.
    pub(super) fn are_there(&self) -> bool {
        self.count() > 0
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// What has happened so far, by numbers.
    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// This has happened now, if anybody wants to know.
    pub(super) fn tell(&self, change: impl FnOnce() -> LookChange) {
        self.tell_at(clock::now, change);
    }

    /// This has happened at that moment, or has been so since then.
    pub(super) fn tell_at(&self, at: impl FnOnce() -> Moment, change: impl FnOnce() -> LookChange) {
        // FAST: mostly nobody looks.
        if self.are_there() {
            self.tell_all(&LookEvent { at: at(), change: change() });
        }
    }

    /// Whether it is time to look what owners have done, which is as if it were done: for all who look
    /// together, however many there are.
    pub(super) fn is_time_to_look(&self, now: Instant) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = looked.is_none_or(|looked| now >= looked + LOOK);
        if is_time {
            *looked = Some(now);
        }
        is_time
    }

    #[cold]
    fn tell_all(&self, event: &LookEvent) {
        let woken = self.journal().note(event, clock::now());
        for told in woken {
            told.notify_one();
        }
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        // Whole at any time: nothing in there can panic.
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Looker {
    pub(super) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Until there is something to tell and it is its turn, or this moment.
    ///
    /// # Cancel safety
    ///
    /// Nothing is taken by this.
    pub(super) async fn news(&self, latest: Instant) {
        let _ = timeout_at(latest, self.told.notified()).await;
        while !self.lookers.journal().has_news(self.id) {
            self.told.notified().await;
        }
    }

    /// It has been told. When it is told next at the latest, if there is something to tell.
    ///
    /// Each has its turns at other moments than others: to tell all of them at once, who then all have
    /// something to do, would take both the daemon and the machine from all who lock.
    pub(super) fn rest(&self) -> Instant {
        self.lookers.journal().rest(self.id, next_turn(self.id, clock::now()));
        Instant::now() + LATEST
    }

    /// Whether it was too slow, and is to be told anew what there is.
    pub(super) fn is_behind(&self) -> bool {
        self.lookers.journal().is_behind(self.id)
    }

    /// How much it has missed, if it was too slow; it is to be told anew what there is at once.
    pub(super) fn take_missed(&self) -> u64 {
        self.lookers.journal().take_missed(self.id)
    }

    /// This moment, in the order of events.
    pub(super) fn moment(&self) -> u64 {
        self.lookers.journal().next()
    }

    /// It has seen what has happened until now.
    pub(super) fn skip(&self) {
        self.lookers.journal().skip(self.id);
    }

    /// Appends a message with what has happened next before that moment; nothing if nothing has. Whether
    /// more has.
    pub(super) fn put_next(&self, before: u64, message: &mut BytesMut) -> Result<bool, CodecError> {
        self.lookers.journal().put_next(self.id, before, message)
    }
}

/// The next turn of the looker of this number.
fn next_turn(id: u64, now: Moment) -> Moment {
    // The golden ratio puts each between those before it.
    let offset = id % 1_000_000 * 6_180_340 % GATHER;
    now + GATHER - (now + GATHER - offset) % GATHER
}

impl Drop for Looker {
    fn drop(&mut self) {
        self.lookers.count.fetch_sub(1, Relaxed);
        self.lookers.journal().end(self.id);
    }
}

impl fmt::Debug for Lookers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookers").field("count", &self.count()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn while_nobody_looks_no_event_is_made() {
        let lookers = Arc::new(Lookers::default());
        lookers.tell(|| unreachable!("nobody looks"));
        drop(lookers.add(Filter::default()));
        lookers.tell(|| unreachable!("nobody looks any more"));
    }

    #[tokio::test]
    async fn what_happens_is_told_when_it_is_the_looker_s_turn_or_by_the_clock_if_nothing_follows()
    {
        let lookers = Arc::new(Lookers::default());
        let looker = lookers.add(Filter::default());
        let far = Instant::now() + Duration::from_secs(3600);
        assert!(looker.news(far).now_or_never().is_none());
        lookers.tell(|| LookChange::Recovered);
        assert!(looker.news(far).now_or_never().is_some());
        let mut message = BytesMut::new();
        assert!(!looker.put_next(u64::MAX, &mut message).unwrap());
        assert!(!message.is_empty());
        // Before its turn.
        lookers.journal().rest(looker.id, u64::MAX);
        lookers.tell(|| LookChange::Recovered);
        assert!(looker.news(far).now_or_never().is_none());
        looker.news(Instant::now()).await;
        // There is nothing else to tell, whatever the clock says.
        assert!(!looker.put_next(u64::MAX, &mut message).unwrap());
        assert!(looker.news(Instant::now()).now_or_never().is_none());
    }

    #[test]
    fn those_who_look_have_their_turns_at_moments_apart_from_each_other() {
        let now = 3 * GATHER + 7;
        let mut turns: Vec<_> = (0..10).map(|id| next_turn(id, now)).collect();
        turns.sort_unstable();
        assert!(turns[0] > now && turns[9] <= now + GATHER);
        turns.push(turns[0] + GATHER);
        let apart = turns.windows(2).map(|two| two[1] - two[0]).min().unwrap();
        assert!(apart >= GATHER / 20, "{apart:?}");
        // The next ones are a whole round later.
        assert_eq!(next_turn(7, next_turn(7, now)), next_turn(7, now) + GATHER);
    }

    #[test]
    fn owners_are_looked_at_as_often_however_many_look() {
        let lookers = Lookers::default();
        let now = Instant::now();
        let times = (0..1000).map(|at| now + LOOK * at / 10);
        let looked = times.filter(|now| lookers.is_time_to_look(*now)).count();
        assert_eq!(looked, 100);
    }
}
