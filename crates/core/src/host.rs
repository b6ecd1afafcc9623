//! What is for hosts alone: programs that speak for the agents of others.

pub use crate::waking::wake_all;
use crate::{
    LockManager,
    agent::{Agent, Ended},
};

/// Ends the agents of these handles as one, as [`LockManager::terminate`] ends a single one: nothing
/// is granted to one of them because another ends.
///
/// For a host that speaks for a client with several agents, and learns that the client is gone.
pub fn terminate_all<'a>(handles: impl IntoIterator<Item = &'a LockManager>) {
    let agents: Vec<_> = handles.into_iter().filter_map(LockManager::agent).collect();
    Agent::end_all(&agents, Ended::Terminated);
}
