//! The extension module of the Python package: the locks of `navlock`.
//!
//! The Python half (`navlock/*.py`) has the API, and waits in the way of whoever asks: a thread, a task of
//! asyncio, a task of trio. This half makes requests, is polled for answers, and holds what is granted. A poll
//! takes a callable that is called, from whatever thread, when polling again may help.
//!
//! Nothing here waits while it keeps other threads of Python from running, and no mutex is locked while Python's
//! code may run: a thread of Python that waited for such a mutex would keep the thread that has it from going on.

mod agent;
mod changed;
mod error;
mod hold;
mod names;
mod own;
mod pending;
mod reach;
mod wake;

use pyo3::prelude::*;

#[pymodule(gil_used = true)]
mod _navlock {
    use std::ffi::OsString;

    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::{
        agent::Agent,
        hold::{Holds, Lock},
        pending::Pending,
    };

    /// Says how this program is started once more, to be the broker: by a command that calls `serve`.
    #[pyfunction]
    fn serve_by(command: Vec<OsString>) {
        navlock::serve_by(command);
    }

    /// Serves, and ends the process.
    #[pyfunction]
    fn serve(py: Python<'_>) {
        py.detach(navlock::serve_if_asked);
    }

    /// This process was forked: what its memory says of locks is its parent's.
    #[pyfunction]
    fn forked() {
        crate::own::forked();
        crate::wake::forked();
    }

    /// An interpreter begins to use this.
    #[pyfunction]
    fn begin_waking(py: Python<'_>) {
        crate::error::load(py);
        crate::wake::begin();
    }

    /// The interpreter ends. If it is the last one, who calls something of Python's is waited for, and nobody does
    /// so from here on.
    #[pyfunction]
    fn end_waking(py: Python<'_>) {
        py.detach(crate::wake::end);
    }

    /// Whether nobody is woken any more, because the interpreter ends.
    #[pyfunction]
    fn waking_has_ended() -> bool {
        crate::wake::has_ended()
    }
}
