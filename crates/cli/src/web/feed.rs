//! One look at the broker, which all pages share.

use std::{
    io, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use navlock::{Look, LookOptions, News, Place, look::Watcher};
use navlock_broker::Control;
use navlock_platform::process::seen;
use tokio::sync::watch;

use super::store::Store;
use crate::{
    picture::{Broker, Picture},
    remedy::Here,
};

/// How often pages are told at most.
const PERIOD: Duration = Duration::from_millis(100);

/// The share of time that may be spent on telling pages: one part of this many.
const SHARE: u32 = 10;

/// How long a cycle has to last to be called a deadlock.
const LASTING: Duration = Duration::from_secs(1);

/// How often this checks whether the broker, or processes that hold others up, are stopped. No
/// event tells that.
const WATCH: Duration = Duration::from_secs(1);

/// How long this waits after a look at the broker has failed.
const RETRY: Duration = Duration::from_secs(1);

/// The state that pages are told.
pub(super) struct Feed {
    store: Mutex<Store>,
    versions: watch::Sender<u64>,
}

impl Feed {
    /// Looks at the broker of this place from now on, in a thread that lasts as long as the
    /// process.
    pub(super) fn start(place: Place) -> io::Result<Arc<Self>> {
        let feed =
            Arc::new(Self { store: Mutex::new(Store::default()), versions: watch::Sender::new(0) });
        let looking = Arc::clone(&feed);
        let here = Here::anywhere(&place);
        let look = Look::new(place.clone(), LookOptions::default());
        thread::Builder::new()
            .name("look".to_owned())
            .spawn(move || looking.follow(look, &place, &here))?;
        Ok(feed)
    }

    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The version of the state that pages are told, and its changes. The first version is 1.
    pub(super) fn versions(&self) -> watch::Receiver<u64> {
        self.versions.subscribe()
    }

    fn follow(&self, mut look: Look, place: &Place, here: &Here) {
        // No lock should have to wait for this process.
        navlock_broker::lower_thread_priority();
        let mut watcher = Watcher::new(LASTING);
        let mut broker = None;
        let mut watch = Instant::now();
        // When pages may be told again, and whether there may be anything that they have not been told.
        let (mut soonest, mut is_behind) = (Instant::now(), false);
        loop {
            let due = [is_behind.then_some(soonest), watcher.next()].into_iter().flatten().min();
            let now = Instant::now();
            let left = due.map_or(WATCH, |due| due.saturating_duration_since(now).min(WATCH));
            let news = look.next(Some(left));
            match news {
                // There may be another broker now.
                Ok(Some(News::Anew { .. })) => {
                    let is_ours = here.counts_as(look.pid_namespace());
                    broker = if is_ours { process_of(place) } else { None };
                }
                Ok(Some(News::NoBroker)) => broker = None,
                _ => {}
            }
            let has_failed = news.is_err();
            let mut store = self.store();
            is_behind |= store.picture.take(&look, news);
            let now = Instant::now();
            if watch <= now {
                watch = now + WATCH;
                store.tidy();
                if let Some(pid) = broker {
                    see_broker(pid, &mut store.picture);
                }
                is_behind = is_behind || store.version() > 0 && store.is_behind(here);
            }
            let is_to_confirm = watcher.next().is_some_and(|next| next <= now);
            if (is_behind || is_to_confirm) && soonest <= now {
                watcher.look(store.picture.overview(), now);
                store.picture.deadlocks = watcher.confirmed().cloned().collect();
                store.refresh(here);
                let took = now.elapsed();
                (soonest, is_behind) = (Instant::now() + PERIOD.max(took * SHARE), false);
                let version = store.version();
                self.versions.send_if_modified(|told| mem::replace(told, version) != version);
            }
            drop(store);
            if has_failed {
                thread::sleep(RETRY);
            }
        }
    }
}

/// Checks whether the broker, which has this process number, is stopped.
fn see_broker(pid: u32, picture: &mut Picture) {
    let is_stopped = seen(pid).is_some_and(|process| process.is_stopped);
    if is_stopped {
        picture.broker_is(Broker::Stopped(pid));
    } else if matches!(picture.broker, Broker::Stopped(_)) {
        picture.broker_is(Broker::Running);
    }
}

/// The broker's process id, in the broker's own words. The kernel only knows which process began to
/// listen at the socket, and this need not be the broker.
fn process_of(place: &Place) -> Option<u32> {
    let status = Control::connect(place).ok()?.status().ok()?;
    Some(status.pid).filter(|pid| *pid != 0)
}
