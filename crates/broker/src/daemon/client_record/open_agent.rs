//! An agent of a client.

use std::sync::Arc;

use navlock_core::{AgentInfo, LockManager};

use super::super::{process::Process, requests::RequestOwner};

/// An agent that a client has opened.
pub(super) struct OpenAgent {
    pub(super) locks: LockManager,
    pub(super) of: Arc<RequestOwner>,
    pub(super) info: Arc<AgentInfo>,
    /// The command that it works for, if that is a child of the client's process.
    pub(super) command: Option<Process>,
}
