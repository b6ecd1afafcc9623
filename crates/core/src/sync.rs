//! The locks and atomics of this crate, which a model checker can exchange as a whole; and
//! `shrink`, by which tables give memory back.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash},
};

#[cfg(not(shuttle))]
pub(crate) use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, Weak,
    atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Arc, Condvar, Mutex, MutexGuard, Weak,
    atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
};

/// Locks a mutex, even if an earlier holder has panicked.
///
/// A panic leaves no state behind our mutexes half changed. Only the caller's code can panic there (a
/// waker's `clone`), and such code is called before or after a change, never within one.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Gives back most of the memory that a crowd of entries has left allocated. To be called after
/// each removal. The amortised time is constant, because few entries are moved here, compared with
/// those that were removed.
pub(crate) fn shrink<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    /// How many places are kept, so that a few entries that come and go do not allocate.
    const KEEP: usize = 64;
    if map.capacity() > KEEP && map.len() < map.capacity() / 8 {
        map.shrink_to(2 * map.len());
    }
}
