//! What can happen to a lock manager.

use navlock_engine::{AgentId, RequestKind, ResourceName};

/// One command to a lock manager.
///
/// Requests have labels, by which later commands mean them, long after their end too. Every
/// sequence of commands can be run, whatever was cut from it while shrinking: a label means the
/// newest request that has it, and a command that no request has the label of does nothing.
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
