//! What the agents of this process share, and the role of each agent.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use crate::{
    locks::Locks,
    mailbox::Mailbox,
    vm::{Engine, Failure},
};

/// The stack of a thread, for scripts that call deeply. The engines have limits of their own, which
/// a script must meet first.
const STACK: usize = 64 << 20;

/// Runs a worker on its new thread.
type RunWorker = fn(Arc<Shared>, Role, &Arc<Mailbox>) -> Result<(), Failure>;

/// What all agents of this process share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) title: &'static str,
    pub(crate) locks: Locks,
    pub(crate) run_worker: RunWorker,
}

/// Which agent of the process an agent is.
pub(crate) enum Role {
    Main { script: PathBuf, arguments: Vec<String> },
    Worker { script: PathBuf, argument: String, number: u64, parent: Arc<Mailbox> },
}

impl Role {
    pub(crate) fn script(&self) -> &Path {
        let (Self::Main { script, .. } | Self::Worker { script, .. }) = self;
        script
    }
}

/// Starts a thread with enough stack for scripts.
pub(crate) fn on_thread<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<thread::JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(run)
}
