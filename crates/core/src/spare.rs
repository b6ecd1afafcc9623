//! What a thread keeps of the last guard that it has dropped, for the next one that it makes.
//!
//! A guard must keep the locks that it is one of, which costs a count up and a count down of a
//! number that other threads may count as well. Handed on from guard to guard it costs neither.
//! What is kept so keeps no agent alive, see [`Seat`](crate::seat::Seat): at most, for each thread,
//! a bucket that nobody uses any more, and that has given back what it does not need.

#[cfg(not(shuttle))]
use std::cell::Cell;

use crate::guard::Grip;

/// Into how many groups threads are divided.
pub(crate) const GROUPS: usize = 16;

#[cfg(not(shuttle))]
struct Here {
    grip: Cell<Option<Box<Grip>>>,
    group: Cell<Option<usize>>,
}

#[cfg(not(shuttle))]
thread_local! {
    static HERE: Here = const { Here { grip: Cell::new(None), group: Cell::new(None) } };
}

/// What the last guard has left here.
#[cfg(not(shuttle))]
#[inline]
pub(crate) fn take() -> Option<Box<Grip>> {
    HERE.try_with(|here| here.grip.take()).ok().flatten()
}

/// Leaves it for the next guard.
#[cfg(not(shuttle))]
#[inline]
pub(crate) fn put(grip: Box<Grip>) {
    // Of a thread that is ending nothing is kept.
    let before = HERE.try_with(|here| here.grip.replace(Some(grip)));
    // It may be the last of its bucket.
    drop(before);
}

/// In which group this thread is: threads of different groups count different things.
#[cfg(not(shuttle))]
pub(crate) fn group() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};

    static NEXT: AtomicUsize = AtomicUsize::new(0);

    let group = HERE.try_with(|here| {
        here.group.get().unwrap_or_else(|| {
            let group = NEXT.fetch_add(1, Ordering::Relaxed) % GROUPS;
            here.group.set(Some(group));
            group
        })
    });
    group.unwrap_or(0)
}

/// The model checker's threads are none of the system's.
#[cfg(shuttle)]
pub(crate) fn take() -> Option<Box<Grip>> {
    None
}

#[cfg(shuttle)]
pub(crate) fn put(grip: Box<Grip>) {
    drop(grip);
}

#[cfg(shuttle)]
pub(crate) fn group() -> usize {
    0
}
