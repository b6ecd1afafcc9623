//! What can happen to a lock manager.

use navlock_engine::{AgentId, RequestKind, ResourceName};

/// One command to a lock manager.
///
/// A request has a label, by which later commands name it, also after its end. Every sequence of commands can
/// be run, whatever shrinking has cut from it: a label means the newest request that has it, and a command
/// with a label of no request does nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Make a request.
    Request {
        /// What later commands call it.
        label: usize,
        /// Who asks.
        agent: AgentId,
        /// For what.
        name: ResourceName,
        /// In which way.
        kind: RequestKind,
    },
    /// End the request with this label, whether it is pending or held.
    Finish(usize),
    /// Abort the request with this label.
    Abort(usize),
    /// Release the lock that the request with this label became.
    Release(usize),
    /// End all that these agents have, as one.
    Terminate(Vec<AgentId>),
}
