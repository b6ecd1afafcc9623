//! What a thread keeps of the last guard that it has dropped, for the next one that it makes.
//!
//! A guard must keep the locks that it is one of, which costs a count up and a count down of a
//! number that other threads may count as well. Handed on from guard to guard it costs neither.
//! What is kept so keeps no agent alive, see [`Seat`](crate::seat::Seat): at most, for each thread,
//! a bucket that nobody uses any more, and that has given back what it does not need.

#[cfg(not(shuttle))]
use std::cell::Cell;

use crate::grip::Grip;

#[cfg(not(shuttle))]
thread_local! {
    static GRIP: Cell<Option<Box<Grip>>> = const { Cell::new(None) };
}

/// What the last guard has left here.
#[cfg(not(shuttle))]
#[inline]
pub(crate) fn take() -> Option<Box<Grip>> {
    GRIP.try_with(Cell::take).ok().flatten()
}

/// Leaves it to the next guard that this thread makes, if that costs nobody anything.
#[inline]
pub(crate) fn leave(mut grip: Box<Grip>) {
    if grip.seat.keeps_only_memory() && grip.lock.name.is_short() {
        // Before that: dropping wakers is foreign code, which may make guards.
        drop(grip.watch.take());
        put(grip);
    }
}

#[cfg(not(shuttle))]
#[inline]
fn put(grip: Box<Grip>) {
    // Of a thread that is ending nothing is kept.
    let before = GRIP.try_with(|here| here.replace(Some(grip)));
    // It may be the last of its bucket.
    drop(before);
}

/// The model checker's threads are none of the system's.
#[cfg(shuttle)]
pub(crate) fn take() -> Option<Box<Grip>> {
    None
}

#[cfg(shuttle)]
fn put(grip: Box<Grip>) {
    drop(grip);
}
