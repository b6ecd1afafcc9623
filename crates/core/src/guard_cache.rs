//! A cache of one guard for each thread: the memory of the last guard that the thread has dropped, for the
//! next one that it makes.
//!
//! A guard counts itself on the reference to its agent, which costs a count up and a count down of a number
//! that other threads may count as well. Handed on from guard to guard it costs neither. What is cached keeps
//! no agent alive, see [`AgentRef`](crate::agent_ref::AgentRef): at most, for each thread, the memory of a
//! bucket that nobody uses any more, and that has given back what it does not need.

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
        // First: dropping wakers is foreign code, which may make guards.
        drop(held.watch.take());
        replace(held);
    }
}

#[cfg(not(shuttle))]
#[inline]
fn replace(held: Box<HeldLock>) {
    // Of a thread that is ending nothing is kept.
    let before = LAST.try_with(|here| here.replace(Some(held)));
    // It may be the last of its bucket.
    drop(before);
}

/// The model checker's threads are none of the system's.
#[cfg(shuttle)]
pub(crate) fn take() -> Option<Box<HeldLock>> {
    None
}

#[cfg(shuttle)]
fn replace(held: Box<HeldLock>) {
    drop(held);
}
