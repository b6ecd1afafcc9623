//! An agent that is to go on with what it had.

use std::time::Duration;

use navlock_core::host::{Claim, Ticket};
use tokio::sync::oneshot;

use crate::{clock::Uptime, keys::NameKey, table::AgentSerial};

/// For how long it is tried: whoever speaks for the agents does not let others wait for longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(9);

/// An agent that wants to go on with what it had.
#[derive(Debug)]
pub(super) struct Recall {
    pub(super) serial: AgentSerial,
    pub(super) since: Uptime,
    pub(super) claims: Vec<Claim>,
    /// Those of the claims.
    pub(super) names: Vec<NameKey>,
    /// What is known of those is of use from this revision on.
    pub(super) after: i64,
    /// What is not found is not there.
    pub(super) is_settled: bool,
    pub(super) answer: oneshot::Sender<Vec<Option<Ticket>>>,
}

impl Recall {
    pub(super) fn is_of(&self, name: &NameKey) -> bool {
        self.names.contains(name)
    }
}
