//! Wakers that call something of Python.
//!
//! Python ends a thread that comes back to an interpreter which is ending. That must not happen to a thread that has
//! frames of Rust: the process would be aborted. So before the interpreter ends, those who are calling something are
//! waited for, and nobody calls anything afterwards.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::{Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use pyo3::prelude::*;

/// How many threads are calling something of Python.
static CALLING: AtomicUsize = AtomicUsize::new(0);

/// Whether nobody may begin to call something.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// How long is waited for those who are calling something, at most.
const LONGEST: Duration = Duration::from_secs(5);

/// How many interpreters use this.
static INTERPRETERS: AtomicUsize = AtomicUsize::new(0);

/// An interpreter begins to use this.
pub(crate) fn begin() {
    INTERPRETERS.fetch_add(1, SeqCst);
}

/// Whether nobody calls anything any more.
pub(crate) fn has_ended() -> bool {
    HAS_ENDED.load(SeqCst)
}

/// Waits for those who are calling something, if the last interpreter ends. Nobody does so afterwards.
pub(crate) fn end() {
    if INTERPRETERS.fetch_sub(1, SeqCst) > 1 {
        return;
    }
    HAS_ENDED.store(true, SeqCst);
    let until = Instant::now() + LONGEST;
    while CALLING.load(SeqCst) > 0 && Instant::now() < until {
        thread::sleep(Duration::from_micros(100));
    }
}

/// A fork does not have the threads that were calling something.
pub(crate) fn forked() {
    CALLING.store(0, SeqCst);
}

/// A thread that may call something of Python.
struct Calling;

impl Calling {
    fn begin() -> Option<Self> {
        CALLING.fetch_add(1, SeqCst);
        let calling = Self;
        (!has_ended()).then_some(calling)
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        CALLING.fetch_sub(1, SeqCst);
    }
}

/// A waker that calls `callable` once, on whatever thread it is woken.
pub(crate) fn waker(callable: Py<PyAny>) -> Waker {
    Waker::from(Arc::new(Once { callable, is_woken: AtomicBool::new(false) }))
}

struct Once {
    callable: Py<PyAny>,
    is_woken: AtomicBool,
}

impl Wake for Once {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_woken.swap(true, SeqCst) {
            return;
        }
        let Some(_calling) = Calling::begin() else { return };
        let _ = Python::try_attach(|py| {
            if let Err(error) = self.callable.call0(py) {
                error.write_unraisable(py, None);
            }
        });
    }
}
