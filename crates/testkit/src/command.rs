//! What can happen to a lock manager.

use navlock_engine::{AgentId, RequestKind, ResourceName};

/// One command to a lock manager.
///
/// Commands name a request by its number, in the order in which requests were made, from 0 on and
/// around again when there are not so many: every sequence of commands can be run, whatever was
/// cut from it while shrinking, and old numbers reach requests that have ended long ago. Before
/// the first request such a command does nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Make a request.
    Request {
        /// Who asks.
        agent: AgentId,
        /// For what.
        name: ResourceName,
        /// In which way.
        kind: RequestKind,
    },
    /// End the request with this number, whether it is pending or held.
    Finish(usize),
    /// Abort the request with this number.
    Abort(usize),
    /// Release the lock that the request with this number became.
    Release(usize),
    /// End all that this agent has.
    Terminate(AgentId),
}
