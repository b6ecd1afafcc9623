//! Calling wakers, which are the caller's code. A waker may panic. It may also drop its task: this
//! releases the task's locks, and so the next wakers are called here.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    task::Waker,
    thread::AccessError,
};

/// How many calls of wakers may be nested. Wakers beyond that are put off until the innermost call
/// returns. Otherwise the stack would overflow in a row of tasks of which each, when woken, drops
/// itself and so wakes the next.
///
/// Few programs reach this depth, so nearly every waker is called at once.
const DEEPEST: usize = 16;

/// How many places for wakers that are put off stay allocated.
const KEEP: usize = 64;

thread_local! {
    /// How many calls of wakers are nested on this thread now.
    static DEPTH: Cell<usize> = const { Cell::new(0) };

    /// The wakers to call when the innermost call returns.
    static PUT_OFF: RefCell<VecDeque<Waker>> = const { RefCell::new(VecDeque::new()) };
}

/// Calls all wakers: at once, or, where too many calls of wakers are nested, when the innermost of
/// these returns.
///
/// If a waker panics, the panic hook reports it, the other wakers are called all the same, and the
/// caller goes on.
pub fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(wake);
}

/// Calls one waker, as [`wake_all`] does.
pub(crate) fn wake(waker: Waker) {
    let depth = DEPTH.get() + 1;
    if depth > DEEPEST {
        return put_off(waker);
    }
    DEPTH.set(depth);
    call(waker);
    if depth == DEEPEST {
        call_put_off();
    }
    DEPTH.set(depth - 1);
}

#[cold]
fn put_off(waker: Waker) {
    let mut waker = Some(waker);
    let _ = change(|put_off| put_off.extend(waker.take()));
    // The thread is ending, and its thread-local queue is gone.
    if let Some(waker) = waker {
        call(waker);
    }
}

/// Calls the wakers that were put off. A thread that is about to wait must do so first: it may be
/// about to wait for one of the tasks that these wakers wake.
pub(crate) fn call_put_off() {
    while let Ok(Some(waker)) = change(VecDeque::pop_front) {
        call(waker);
    }
    let _ = change(|put_off| {
        if put_off.is_empty() && put_off.capacity() > KEEP {
            *put_off = VecDeque::new();
        }
    });
}

/// Changes the queue of this thread, without a call of the caller's code.
fn change<T>(change: impl FnOnce(&mut VecDeque<Waker>) -> T) -> Result<T, AccessError> {
    PUT_OFF.try_with(|put_off| change(&mut put_off.borrow_mut()))
}

fn call(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        // The payload is the caller's as well: to drop it may panic, with another payload, and that one
        // is leaked.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            mem::forget(payload);
        }
    }
}
