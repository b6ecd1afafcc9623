//! What belongs to this process, and not to one that is forked from it.

use std::{
    mem, process,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
};

/// How often this process, or what it was forked from, was forked.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The process that has asked for a lock last.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// This process is a fork from here on.
pub(crate) fn forked() {
    PROCESS.store(process::id(), Relaxed);
    FORKS.fetch_add(1, Relaxed);
}

/// Notices a fork that Python was not told of, as some servers make it.
pub(crate) fn notice_fork() {
    let now = process::id();
    let last = PROCESS.swap(now, Relaxed);
    if last != 0 && last != now {
        FORKS.fetch_add(1, Relaxed);
    }
}

/// A value that only the process that has made it may touch. A fork has a copy, which is never used or dropped: a
/// thread that the fork does not have may have been in the midst of changing it, and dropping it would act on what
/// both processes see.
#[derive(Debug)]
pub(crate) struct Own<T> {
    /// `None` only while `self` ends.
    value: Option<T>,
    forks: u64,
}

impl<T> Own<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), forks: FORKS.load(Relaxed) }
    }

    fn is_here(&self) -> bool {
        self.forks == FORKS.load(Relaxed)
    }

    /// The value; `None` in a fork.
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref().filter(|_| self.is_here())
    }

    /// The value; `None` in a fork.
    pub(crate) fn take(mut self) -> Option<T> {
        if self.is_here() { self.value.take() } else { None }
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if !self.is_here() {
            mem::forget(self.value.take());
        }
    }
}

/// Locks a mutex, whatever became of a thread that had it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
