//! The messages by which a client is told outcomes.

use navlock_engine::RequestId;
use navlock_wire::FromDaemon;

use super::super::outcome::Outcome;
use crate::convert::failure;

/// The message that tells a client this outcome.
pub(in super::super) fn outcome_message(request: RequestId, outcome: Outcome) -> FromDaemon {
    match outcome {
        Outcome::Granted(token, in_slot) => FromDaemon::Granted { request, token, in_slot },
        Outcome::Unavailable => FromDaemon::Unavailable { request },
        Outcome::Failed(error) => FromDaemon::Failed { request, failure: failure(&error) },
        Outcome::Lost(lost, stolen_by) => FromDaemon::Lost { request, how: (lost, stolen_by) },
        Outcome::Register => FromDaemon::Register,
    }
}
