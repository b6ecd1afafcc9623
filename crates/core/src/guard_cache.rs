//! A cache of one guard for each thread: the memory of the last guard that the thread has dropped, for the
//! next one that it makes.
//!
//! A guard counts itself on the reference to its agent: once up and once down, on a number that other threads
//! may change as well. When the memory is handed on from guard to guard, the count is handed on with it, and
//! neither change is needed. A cached guard keeps no agent alive, see
//! [`AgentRef`](crate::agent_ref::AgentRef). At most it keeps, for each thread, the memory of a bucket that
//! nobody uses any more, and such a bucket has given back what it does not need.

#[cfg(not(shuttle))]
use std::cell::Cell;

use crate::held_lock::HeldLock;

#[cfg(not(shuttle))]
thread_local! {
    static LAST: Cell<Option<Box<HeldLock>>> = const { Cell::new(None) };
}

/// Takes what the last guard has left, if anything.
#[cfg(not(shuttle))]
#[inline]
pub(crate) fn take() -> Option<Box<HeldLock>> {
    LAST.try_with(Cell::take).ok().flatten()
}

/// Leaves the memory of a guard to the next one that this thread makes, if that costs nobody anything.
#[inline]
pub(crate) fn put(mut held: Box<HeldLock>) {
    if held.agent.keeps_only_memory() && held.lock.name.is_short() {
        // The wakers are dropped before the memory is cached: dropping them calls the caller's
        // code, which may make guards.
        drop(held.watch.take());
        replace(held);
    }
}

#[cfg(not(shuttle))]
#[inline]
fn replace(held: Box<HeldLock>) {
    // A thread that is ending keeps nothing.
    let before = LAST.try_with(|here| here.replace(Some(held)));
    // The earlier memory may keep the last reference to its bucket, so it is dropped outside of the
    // thread-local.
    drop(before);
}

/// Nothing is cached: the model checker's threads are no threads of the system.
#[cfg(shuttle)]
pub(crate) fn take() -> Option<Box<HeldLock>> {
    None
}

#[cfg(shuttle)]
fn replace(held: Box<HeldLock>) {
    drop(held);
}
