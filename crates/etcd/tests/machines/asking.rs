//! What tests ask of machines, whatever store these use.

use std::time::{Duration, Instant};

use navlock_core::{LockGuard, LockInfo, LockManager, Mode, blocking::block_on_timeout};

use crate::server::DEADLINE;

/// The future's output, or a failed test if it takes too long.
#[track_caller]
pub(crate) fn soon<T>(future: impl IntoFuture<Output = T>) -> T {
    block_on_timeout(future, DEADLINE).expect("it comes to an end")
}

#[track_caller]
pub(crate) fn exclusive(locks: &LockManager, name: &str) -> LockGuard {
    soon(locks.lock(name)).expect("it is granted")
}

/// What is held and what waits, by mode, as this machine sees it.
#[track_caller]
pub(crate) fn state(locks: &LockManager) -> (Vec<Mode>, Vec<Mode>) {
    let state = soon(locks.query()).expect("the bucket can be queried");
    let modes = |found: Vec<LockInfo>| found.iter().map(|info| info.mode).collect();
    (modes(state.held), modes(state.pending))
}

/// Waits until the store knows what this machine has released.
#[track_caller]
pub(crate) fn settle(locks: &LockManager) {
    state(locks);
}

/// Waits until so many wait.
#[track_caller]
pub(crate) fn until_waiting(locks: &LockManager, count: usize) {
    let since = Instant::now();
    while state(locks).1.len() != count {
        assert!(since.elapsed() < DEADLINE, "{count} never wait");
        std::thread::sleep(Duration::from_millis(1));
    }
}
