//! Calling wakers, which are foreign code: they panic, drop the task that they belong to, release
//! what it held, and so come back here.

use std::{
    cell::RefCell,
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
    static WAKING: RefCell<Waking> =
        const { RefCell::new(Waking { depth: 0, put_off: VecDeque::new() }) };
}

/// What this thread is at.
struct Waking {
    depth: usize,
    put_off: VecDeque<Waker>,
}

/// Calls all wakers: at once, or on a thread that has come here through many of them, when the
/// deepest of these returns.
///
/// If one panics, which the panic hook tells, the others are called all the same, and whoever
/// brought this about goes on.
pub fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    let mut wakers = wakers.into_iter().peekable();
    if wakers.peek().is_none() {
        return;
    }
    match change(|waking| {
        waking.depth += 1;
        waking.depth
    }) {
        Ok(depth) if depth > DEEPEST => {
            for waker in wakers {
                // There a moment ago, and nothing here ends the thread.
                let _ = change(|waking| waking.put_off.push_back(waker));
            }
        }
        Ok(depth) => {
            for waker in wakers {
                call(waker);
                if depth == DEEPEST {
                    call_put_off();
                }
            }
        }
        // The thread is ending, and its place to note anything in is gone.
        Err(_) => return wakers.for_each(call),
    }
    let _ = change(|waking| waking.depth -= 1);
}

/// Calls the wakers that were put off, as a thread must that is about to wait: it may be for one of
/// those whom they wake.
pub(crate) fn call_put_off() {
    while let Ok(Some(waker)) = change(|waking| waking.put_off.pop_front()) {
        call(waker);
    }
    let _ = change(|waking| {
        if waking.put_off.is_empty() && waking.put_off.capacity() > KEEP {
            waking.put_off = VecDeque::new();
        }
    });
}

/// Changes what is noted of this thread. Nothing foreign is called by that.
fn change<T>(change: impl FnOnce(&mut Waking) -> T) -> Result<T, AccessError> {
    WAKING.try_with(|waking| change(&mut waking.borrow_mut()))
}

fn call(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        // What it panicked with is foreign as well, and may panic when it is dropped; and so on.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            mem::forget(payload);
        }
    }
}
