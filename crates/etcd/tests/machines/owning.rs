//! Machines that own names, and how a test has them own one.

use std::{
    pin::Pin,
    task::{Context, Waker},
    time::Instant,
};

use navlock_core::{ClientId, LockFuture, LockGuard, LockManager, host};

use super::{exclusive, soon};
use crate::server::{DEADLINE, connect, namespace, options, shared};

/// A machine that owns what it has taken and released once.
pub(crate) fn owner_at(endpoint: &str, namespace: &str) -> LockManager {
    connect(&options(endpoint, namespace).keep_names(1)).lock_manager("bucket")
}

pub(super) fn machines<const N: usize>() -> [LockManager; N] {
    let namespace = namespace();
    std::array::from_fn(|_| owner_at(&shared().endpoint(), &namespace))
}

/// Another agent of the same machine.
pub(crate) fn beside(locks: &LockManager) -> LockManager {
    host::lock_manager_as(&locks.bucket(), ClientId::random())
}

/// Has the name be this machine's.
#[track_caller]
pub(crate) fn own(locks: &LockManager, name: &str) {
    let since = Instant::now();
    loop {
        drop(exclusive(locks, name));
        let mut future = locks.lock(name).into_future();
        // If it is there at once, the store cannot have been asked.
        if poll(&mut future) {
            return;
        }
        assert!(since.elapsed() < DEADLINE, "{name} is never its own");
        drop(soon(future));
    }
}

/// Has the machine take a name of its own until it has done so this often.
#[track_caller]
pub(super) fn until_taken(locks: &LockManager, name: &str, times: u64) {
    while exclusive(locks, name).fencing_token().get() & 0xf_ffff < times {}
}

/// Two machines, of which the first has this name.
pub(super) fn owning(name: &str) -> [LockManager; 2] {
    let machines = machines();
    own(&machines[0], name);
    machines
}

/// Asks until this is so.
#[track_caller]
pub(super) fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(since.elapsed() < DEADLINE, "it never is");
    }
}

/// Whether it is ready.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// A request that has to wait.
#[track_caller]
pub(crate) fn asked<'a>(
    locks: &'a LockManager,
    name: &'a str,
) -> LockFuture<'a, LockGuard, &'a str> {
    let mut future = locks.lock(name).into_future();
    assert!(!poll(&mut future), "it has to wait");
    future
}
