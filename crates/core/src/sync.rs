//! The locks and atomics of this crate, exchanged as a whole for those of a model checker; and what
//! keeps what they guard small.

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

/// Locks, whatever happened to an earlier holder.
///
/// The state behind our mutexes is whole between any two statements that could panic: what can
/// panic in there is foreign (a waker's `clone`), and is called before or after a change, never
/// within one.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Gives back most of what a crowd left allocated. To be called after each removal; constant
/// amortised time, because what is moved here is little beside what was removed.
pub(crate) fn shrink<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    /// So many places are kept, so that few who come and go do not allocate.
    const KEEP: usize = 64;
    if map.capacity() > KEEP && map.len() < map.capacity() / 8 {
        map.shrink_to(2 * map.len());
    }
}
