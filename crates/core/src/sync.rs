//! The locks and atomics of this crate, exchanged as a whole for those of a model checker.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{
    Arc, Mutex, MutexGuard, Weak,
    atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Arc, Mutex, MutexGuard, Weak,
    atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
};

/// Locks, whatever happened to an earlier holder.
///
/// The state behind our mutexes is whole between any two statements that could panic: what can
/// panic in there is foreign (a waker's `clone`), and is called before or after a change, never
/// within one.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
