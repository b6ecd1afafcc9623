//! How the tasks of an agent come to be run.

use std::{
    cell::{Cell, RefCell},
    task::Waker,
};

/// Who runs the tasks of an agent.
#[derive(Debug)]
pub(crate) enum Driver {
    /// A job of the context's executor. It stays there as long as scripts wait for something.
    Jobs(Jobs),
    /// The embedder.
    Host,
}

#[derive(Debug, Default)]
pub(crate) struct Jobs {
    /// Whether the executor has our job.
    pub(crate) is_queued: Cell<bool>,
    /// The waker of whoever polls the job.
    pub(crate) waker: RefCell<Option<Waker>>,
    /// Whether the job stays until the agent ends, even when there is nothing to wait for.
    pub(crate) is_until_end: bool,
}

impl Jobs {
    pub(crate) fn until_end() -> Self {
        Self { is_until_end: true, ..Self::default() }
    }
}
