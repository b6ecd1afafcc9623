//! How the tasks of an agent come to be run.

use std::{
    cell::{Cell, RefCell},
    task::Waker,
};

/// Who has the tasks of an agent run.
#[derive(Debug)]
pub(crate) enum Driver {
    /// A job of the context's executor, which is there as long as scripts wait for something.
    Jobs(Jobs),
    /// The embedder.
    Host,
}

#[derive(Debug, Default)]
pub(crate) struct Jobs {
    /// The executor has our job.
    pub(crate) is_queued: Cell<bool>,
    /// Whoever polls it.
    pub(crate) waker: RefCell<Option<Waker>>,
    /// It stays until the agent ends, also when there is nothing to wait for.
    pub(crate) is_until_end: bool,
}

impl Jobs {
    pub(crate) fn until_end() -> Self {
        Self { is_until_end: true, ..Self::default() }
    }
}
