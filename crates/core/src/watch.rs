//! Several wakers for the loss of one lock, behind the one waker that the lock's backend calls. They
//! belong to those who ask by [`LockGuard::lost`](crate::LockGuard::lost) or
//! [`LockGuard::poll_lost`](crate::LockGuard::poll_lost).

use std::{
    mem,
    task::{Wake, Waker},
};

use slab::Slab;

use crate::{
    sync::{Mutex, lock},
    waking::wake_all,
};

/// Those who watch for the loss of one lock. For the backend, all of them are one waker.
#[derive(Debug, Default)]
pub(crate) struct Watch(Mutex<Watchers>);

#[derive(Debug, Default)]
struct Watchers {
    /// How often all wakers were called. After each such call no waker is noted any more, and a
    /// future that polls again is noted anew.
    round: u64,
    /// The wakers of the futures that wait.
    futures: Slab<Waker>,
    /// The waker of whoever polls by hand.
    poller: Option<Waker>,
}

/// Where the waker of a future is noted, until all are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    round: u64,
    at: usize,
}

impl Watch {
    /// Notes the waker of a future, in place of the waker that the future had noted before.
    pub(crate) fn enter(&self, place: Option<Place>, waker: &Waker) -> Place {
        let waker = waker.clone();
        let mut watchers = lock(&self.0);
        let round = watchers.round;
        let Some(place) = place.filter(|place| place.round == round) else {
            return Place { round, at: watchers.futures.insert(waker) };
        };
        // The earlier waker is still there, because within a round only its own future removes it.
        let replaced = mem::replace(&mut watchers.futures[place.at], waker);
        drop(watchers);
        // Dropping a waker calls the caller's code, so it is not done while the mutex is locked.
        drop(replaced);
        place
    }

    /// Forgets the waker of a future.
    pub(crate) fn leave(&self, place: Place) {
        let mut watchers = lock(&self.0);
        let left = (place.round == watchers.round)
            .then(|| watchers.futures.try_remove(place.at))
            .flatten();
        drop(watchers);
        drop(left);
    }

    /// Notes the waker of whoever polls by hand, in place of the earlier one.
    pub(crate) fn poller(&self, waker: &Waker) {
        let waker = waker.clone();
        let replaced = lock(&self.0).poller.replace(waker);
        drop(replaced);
    }
}

impl Wake for Watch {
    fn wake(self: std::sync::Arc<Self>) {
        let mut watchers = lock(&self.0);
        let round = watchers.round + 1;
        let Watchers { futures, poller, .. } =
            mem::replace(&mut *watchers, Watchers { round, ..Watchers::default() });
        drop(watchers);
        wake_all(futures.into_iter().map(|(_, waker)| waker).chain(poller));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_future_that_was_called_takes_no_place_of_another() {
        let watch = Arc::new(Watch::default());
        let counters = [(); 2].map(|()| Arc::new(Counter::default()));
        let wakers = counters.clone().map(Waker::from);
        let first = wakers.each_ref().map(|waker| watch.enter(None, waker));
        Arc::clone(&watch).wake();

        // The second is noted where the first one was.
        let second = watch.enter(Some(first[1]), &wakers[1]);
        assert_eq!(second.at, first[0].at);
        watch.leave(first[0]);
        watch.enter(Some(first[0]), &wakers[0]);
        watch.wake();
        assert_eq!(counters.map(|counter| counter.0.load(Ordering::SeqCst)), [2, 2]);
    }
}
