//! An agent that wants to go on with its locks and requests of another connection.

use navlock_core::host::{Claim, Ticket};
use tokio::sync::oneshot;

use crate::{clock::Uptime, keys::NameKey, table::AgentSerial};

/// An agent that claims its locks and requests of another connection.
#[derive(Debug)]
pub(super) struct Reclaim {
    pub(super) serial: AgentSerial,
    pub(super) since: Uptime,
    pub(super) claims: Vec<Claim>,
    /// The names of the claims.
    pub(super) names: Vec<NameKey>,
    /// The state of these names is of use from this revision on.
    pub(super) after: i64,
    /// Whether a claimed lock or request that was not found yet does not exist.
    pub(super) is_settled: bool,
    pub(super) answer: oneshot::Sender<Vec<Option<Ticket>>>,
}

impl Reclaim {
    pub(super) fn is_of(&self, name: &NameKey) -> bool {
        self.names.contains(name)
    }
}
