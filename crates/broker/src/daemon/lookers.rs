//! Lookers. Each looker is sent a picture of the locks and requests, and then the events after the
//! picture.
//!
//! While nobody looks, an event costs one load. While somebody looks, it is written once, into the
//! inbox. All else is done on the lookers' thread (see [`telling`](super::telling)).

use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use navlock_core::{
    host::Journal,
    look::{Change, LookOptions},
};
use navlock_wire::{LookEvent, Moment};
use tokio::sync::Notify;

use super::{
    counts::Counts,
    dies_of_panics::DiesOfPanics,
    inbox::{Batch, Inbox, Note},
    tasks::{TaskThread, Tasks},
    timers::sleep_until,
};
use crate::{clock, lower_thread_priority, sync::lock};

/// How long events are gathered before they are sent, in nanoseconds. To send each event alone would cost as
/// much as the lock of which it tells. A person would not notice a longer time. But then a looker would have
/// more to read at once, and would keep others from a CPU while it reads.
const GATHER: u64 = 10_000_000;

/// How often the daemon looks for what owners have done without a message.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// All lookers.
pub(super) struct Lookers {
    /// How many lookers there are.
    count: AtomicUsize,
    /// Counters of what has happened, which count even while nobody looks.
    pub(super) counts: Counts,
    /// How many lookers there have ever been.
    begun: AtomicU64,
    inbox: Mutex<Inbox>,
    /// The journal, and a batch to be swapped with that of the inbox.
    journal: Mutex<(Journal<Moment>, Batch)>,
    /// The thread that sends to lookers, once there is one. `None` inside if no thread could be
    /// had.
    thread: OnceLock<Option<TaskThread>>,
    /// When the daemon last looked for what owners have done.
    looked: Mutex<Option<Instant>>,
    /// Notified when a client has said that a request was made inside a lock.
    pub(super) nested: Notify,
    /// Notified when a request waits.
    pub(super) waits: Notify,
}

/// One looker.
pub(super) struct Looker {
    lookers: Arc<Lookers>,
    pub(super) options: LookOptions,
    /// Its number in the journal.
    id: u64,
    /// Notified when there is something to tell.
    told: Arc<Notify>,
}

impl Default for Lookers {
    fn default() -> Self {
        Self {
            count: AtomicUsize::new(0),
            counts: Counts::default(),
            begun: AtomicU64::new(0),
            inbox: Mutex::default(),
            journal: Mutex::default(),
            thread: OnceLock::new(),
            looked: Mutex::default(),
            nested: Notify::new(),
            waits: Notify::new(),
        }
    }
}

impl Lookers {
    /// Adds a looker, until the returned value is dropped.
    pub(super) fn add(self: &Arc<Self>, options: LookOptions) -> Looker {
        let id = self.begun.fetch_add(1, Relaxed);
        self.count.fetch_add(1, Relaxed);
        Looker { lookers: Arc::clone(self), options, id, told: Arc::default() }
    }

    /// The tasks that send to lookers, on a thread of their own. `None` if no thread can be had.
    pub(super) fn tasks(&self) -> Option<&Tasks> {
        let begin = || {
            lower_thread_priority();
            DiesOfPanics
        };
        let start = || TaskThread::start("navlock-telling", begin).ok();
        self.thread.get_or_init(start).as_ref().map(TaskThread::tasks)
    }

    /// Whether anybody looks.
    pub(super) fn are_there(&self) -> bool {
        self.count() > 0
    }

    /// How many lookers there are.
    pub(super) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Tells lookers that this has happened now. If nobody looks, `change` is not called.
    pub(super) fn tell(&self, change: impl FnOnce() -> Change) {
        self.tell_at(clock::now, change);
    }

    /// Tells lookers that this has happened at that moment, or has been true since then.
    pub(super) fn tell_at(&self, at: impl FnOnce() -> Moment, change: impl FnOnce() -> Change) {
        // FAST: mostly nobody looks.
        if self.are_there() {
            self.tell_all(LookEvent { at: at(), change: change() });
        }
    }

    /// Whether it is time to look for what owners have done. If it is, the caller must look: the next
    /// time is counted from now, for all lookers together.
    pub(super) fn is_time_to_look(&self, now: Instant) -> bool {
        let mut looked = lock(&self.looked);
        let is_time = looked.is_none_or(|looked| now >= looked + CHECK_INTERVAL);
        if is_time {
            *looked = Some(now);
        }
        is_time
    }

    #[cold]
    fn tell_all(&self, event: LookEvent) {
        let woken = lock(&self.inbox).note(event);
        for told in woken {
            told.notify_one();
        }
    }

    /// The journal, with all events that have happened so far.
    ///
    /// FAST: no session ever locks the journal, because the lookers' thread may be kept from its CPU for
    /// long while it has the journal locked.
    fn journal<T>(&self, ask: impl FnOnce(&mut Journal<Moment>) -> T) -> T {
        let mut journal = lock(&self.journal);
        let (journal, batch) = &mut *journal;
        lock(&self.inbox).take(batch);
        batch.enter(journal);
        ask(journal)
    }
}

impl Looker {
    /// Begins a picture for this looker. The picture contains what has happened until now. Events
    /// from now on are told as a part of the picture.
    pub(super) fn begin_picture(&self) {
        lock(&self.lookers.inbox).put(Note::Picture(self.id, self.options.clone()));
    }

    /// Ends the picture for this looker. Events from now on are told after the picture.
    pub(super) fn end_picture(&self) {
        lock(&self.lookers.inbox).put(Note::Whole(self.id));
    }

    /// To be called when everything that comes before the picture was sent; see [`Journal::go_on`].
    pub(super) fn go_on(&self) -> Option<(u64, Vec<LookEvent>)> {
        self.lookers.journal(|journal| journal.go_on(self.id))
    }

    /// Waits until there is something to tell this looker and the looker has its turn.
    ///
    /// Each looker has its turns at moments of its own. If all lookers were told at once, all of them
    /// would have something to do at the same time, and would take the CPUs from the clients that
    /// take locks.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, nothing is lost. `turn` is still set if the turn has not come yet.
    pub(super) async fn news(&self, turn: &mut Option<Instant>) {
        loop {
            if let Some(turn) = turn {
                sleep_until(*turn).await;
            }
            *turn = None;
            if self.has_news() {
                return;
            }
            if lock(&self.lookers.inbox).wakes(&self.told) {
                self.told.notified().await;
                if self.has_news() {
                    return;
                }
            }
            // This looker does not want to see any of the events.
            *turn = Some(self.next_turn());
        }
    }

    /// The earliest moment at which this looker is told the next thing.
    pub(super) fn next_turn(&self) -> Instant {
        let now = clock::now();
        Instant::now() + Duration::from_nanos(next_turn(self.id, now) - now)
    }

    fn has_news(&self) -> bool {
        self.lookers.journal(|journal| journal.has_news(self.id))
    }

    /// Whether this looker was too slow, and needs a new picture.
    pub(super) fn is_behind(&self) -> bool {
        self.lookers.journal(|journal| journal.is_behind(self.id))
    }

    /// The next events, as many as a message may have, and whether there are more.
    pub(super) fn next(&self) -> (Vec<LookEvent>, bool) {
        self.lookers.journal(|journal| journal.next(self.id))
    }
}

/// The next turn of the looker of this number.
fn next_turn(id: u64, now: Moment) -> Moment {
    // The golden ratio puts the turns of each new looker between those of earlier lookers.
    let offset = id % 1_000_000 * 6_180_340 % GATHER;
    now + GATHER - (now + GATHER - offset) % GATHER
}

impl Drop for Looker {
    fn drop(&mut self) {
        self.lookers.count.fetch_sub(1, Relaxed);
        lock(&self.lookers.inbox).put(Note::Gone(self.id));
        // The entry has to be taken from the inbox now, since there may be no other looker. This
        // thread may be the one of the sessions, so it does not do this itself.
        match self.lookers.thread.get() {
            Some(Some(thread)) => {
                let lookers = Arc::clone(&self.lookers);
                thread.tasks().spawn(async move { lookers.journal(|_| ()) });
            }
            _ => self.lookers.journal(|_| ()),
        }
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
    use navlock_core::{
        ClientId,
        look::{LockId, LockName},
    };

    use super::*;

    #[test]
    fn while_nobody_looks_no_event_is_made() {
        let lookers = Arc::new(Lookers::default());
        lookers.tell(|| unreachable!("nobody looks"));
        drop(lookers.add(LookOptions::default()));
        lookers.tell(|| unreachable!("nobody looks any more"));
    }

    #[test]
    fn an_event_is_told_at_once_and_the_next_ones_at_the_looker_s_turn() {
        let lookers = Arc::new(Lookers::default());
        let looker = lookers.add(LookOptions::default());
        looker.begin_picture();
        looker.end_picture();
        assert_eq!(looker.go_on(), Some((0, Vec::new())));
        let mut turn = None;
        assert!(looker.news(&mut turn).now_or_never().is_none());
        lookers.tell(|| Change::Recovered);
        assert!(looker.news(&mut turn).now_or_never().is_some());
        let (events, has_more) = looker.next();
        assert_eq!((events.len(), has_more), (1, false));
        // This event comes before the looker's turn.
        lookers.tell(|| Change::Recovered);
        turn = Some(Instant::now() + Duration::from_secs(3600));
        assert!(looker.news(&mut turn).now_or_never().is_none());
        turn = Some(Instant::now());
        assert!(looker.news(&mut turn).now_or_never().is_some());
        assert_eq!(looker.next().0.len(), 1);
        // There is nothing else to tell, whatever the clock says.
        turn = Some(Instant::now());
        assert!(looker.news(&mut turn).now_or_never().is_none());
        // Events that a looker does not want to see wake it at its turns only.
        let few = lookers.add(LookOptions::default().bucket("a"));
        few.begin_picture();
        few.end_picture();
        assert!(few.go_on().is_some());
        let mut turn = None;
        assert!(few.news(&mut turn).now_or_never().is_none());
        let name = LockName::new("b", "x".try_into().unwrap());
        let id = LockId { client_id: ClientId::random(), serial: 2 };
        lookers.tell(|| Change::Released { name, id });
        assert!(few.news(&mut turn).now_or_never().is_none());
        assert!(turn.is_some());
    }

    #[test]
    fn ending_a_look_does_not_wait_for_the_journal() {
        let lookers = Arc::new(Lookers::default());
        assert!(lookers.tasks().is_some());
        let looker = lookers.add(LookOptions::default());
        let journal = lookers.journal.lock();
        let (ended, has_ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            drop(looker);
            ended.send(())
        });
        assert_eq!(has_ended.recv_timeout(Duration::from_secs(30)), Ok(()));
        drop(journal);
    }

    #[test]
    fn lookers_have_their_turns_at_different_moments() {
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
        let times = (0..1000).map(|at| now + CHECK_INTERVAL * at / 10);
        let looked = times.filter(|now| lookers.is_time_to_look(*now)).count();
        assert_eq!(looked, 100);
    }
}
