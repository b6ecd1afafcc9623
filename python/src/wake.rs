//! Wakers that call something of Python.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::AcqRel},
    },
    task::{Wake, Waker},
};

use pyo3::prelude::*;

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
        if self.is_woken.swap(true, AcqRel) {
            return;
        }
        // An interpreter that ends wakes nobody any more.
        let _ = Python::try_attach(|py| {
            if let Err(error) = self.callable.call0(py) {
                error.write_unraisable(py, None);
            }
        });
    }
}
