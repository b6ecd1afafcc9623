//! Who sees whether an exclusive lock has one holder at a time.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use navlock_core::LockGuard;

use crate::server::DEADLINE;

/// What one name protects, as seen from where all machines of a test are.
#[derive(Default)]
pub(crate) struct Witness(Mutex<WitnessState>);

#[derive(Default)]
struct WitnessState {
    /// Who came last and has not gone.
    inside: Option<Arc<LockGuard>>,
    token: u64,
    grants: u64,
    losses: u64,
}

impl Witness {
    /// A holder comes, and stays for a while. Whoever held before it has gone, or knows by now that
    /// its lock is lost: at this moment nobody else believes to hold.
    pub(crate) fn enter(&self, guard: LockGuard, stay: Duration) {
        let guard = Arc::new(guard);
        {
            let mut seen = self.0.lock().unwrap();
            let token = guard.fencing_token().get();
            if let Some(before) = &seen.inside {
                let believes = !before.is_lost();
                assert!(!believes || guard.is_lost(), "{before:?} and {guard:?} are both held");
            }
            assert!(seen.token < token, "{} was granted before {token}", seen.token);
            seen.token = token;
            seen.grants += 1;
            seen.inside = Some(Arc::clone(&guard));
        }
        thread::sleep(stay);
        let mut seen = self.0.lock().unwrap();
        if guard.is_lost() {
            seen.losses += 1;
        }
        seen.inside.take_if(|inside| Arc::ptr_eq(inside, &guard));
        drop(seen);
    }

    pub(crate) fn grants(&self) -> u64 {
        self.0.lock().unwrap().grants
    }

    /// How many found that their lock was lost.
    pub(crate) fn losses(&self) -> u64 {
        self.0.lock().unwrap().losses
    }

    /// Waits until so many more have come.
    #[track_caller]
    pub(crate) fn until_more(&self, grants: u64) {
        let (since, before) = (Instant::now(), self.grants());
        while self.grants() < before + grants {
            assert!(since.elapsed() < DEADLINE, "nobody is granted any more");
            thread::sleep(Duration::from_millis(5));
        }
    }
}
