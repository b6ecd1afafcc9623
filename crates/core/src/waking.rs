//! Calling wakers, which are foreign code: they panic, drop the task that they belong to, release
//! what it held, and so come back here.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    task::Waker,
    thread::AccessError,
};

/// How deep wakers may call wakers. Below that they are put off until the deepest returns: a row of
/// tasks of which each, when woken, drops itself and so wakes the next would fill the stack.
///
/// Nearly nobody comes so far, so that nearly every waker is called at once.
const DEEPEST: usize = 16;

/// How many places for put-off wakers stay allocated.
const KEEP: usize = 64;

thread_local! {
    /// How deep this thread is in wakers that call wakers.
    static DEPTH: Cell<usize> = const { Cell::new(0) };

    /// Those to be called when the deepest returns.
    static PUT_OFF: RefCell<VecDeque<Waker>> = const { RefCell::new(VecDeque::new()) };
}

/// Calls all wakers: at once, or on a thread that has come here through many of them, when the
/// deepest of these returns.
///
/// If one panics, which the panic hook tells, the others are called all the same, and whoever
/// brought this about goes on.
pub fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(wake);
}

/// The same for one.
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
    // The thread is ending, and its place to note anything in is gone.
    if let Some(waker) = waker {
        call(waker);
    }
}

/// Calls the wakers that were put off, as a thread must that is about to wait: it may be for one of
/// those whom they wake.
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

/// Changes what is noted of this thread. Nothing foreign is called by that.
fn change<T>(change: impl FnOnce(&mut VecDeque<Waker>) -> T) -> Result<T, AccessError> {
    PUT_OFF.try_with(|put_off| change(&mut put_off.borrow_mut()))
}

fn call(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        // What it panicked with is foreign as well, and may panic when it is dropped; and so on.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            mem::forget(payload);
        }
    }
}
