//! What can happen to a lock manager.

use navlock_engine::{AgentId, RequestKind, ResourceName};

/// One command to a lock manager.
///
/// A request has a label. Later commands name the request by the label, even after the request has
/// ended. Every sequence of commands can be run, whatever shrinking has cut from it: a label means
/// the newest request with this label, and a command with a label of no request does nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Make a request.
    Request {
        /// The label by which later commands name the request.
        label: usize,
        /// The agent that makes the request.
        agent: AgentId,
        /// The name that is requested.
        name: ResourceName,
        /// The kind of the request.
        kind: RequestKind,
    },
    /// End the request with this label, whether it is pending or held.
    Finish(usize),
    /// Abort the request with this label.
    Abort(usize),
    /// Release the lock that the request with this label became.
    Release(usize),
    /// End everything that these agents have, all at one moment.
    Terminate(Vec<AgentId>),
}
