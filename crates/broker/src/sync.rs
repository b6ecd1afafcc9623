//! How mutexes are locked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if an earlier holder has panicked.
///
/// A panic leaves nothing behind our mutexes half changed: a change is whole between any two calls that could panic.
/// And the client of a session that has panicked must still be ended.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
