//! The messages by which a client is told outcomes.

use navlock_engine::RequestId;
use navlock_wire::FromDaemon;

use super::super::outcome::Outcome;
use crate::convert::{failure, how_lost};

/// The message that tells a client this outcome, in this version of the protocol.
pub(in super::super) fn outcome_message(
    request: RequestId,
    outcome: Outcome,
    version: u16,
) -> FromDaemon {
    match outcome {
        Outcome::Granted(token) => FromDaemon::Granted { request, token },
        Outcome::GrantedInSlot(token) => FromDaemon::GrantedInSlot { request, token },
        Outcome::Unavailable => FromDaemon::Unavailable { request },
        Outcome::Failed(error) => FromDaemon::Failed { request, failure: failure(&error) },
        Outcome::Lost(lost, stolen_by) => {
            let how = match how_lost(lost, stolen_by) {
                navlock_wire::Lost::StolenBy(_) if version < 4 => navlock_wire::Lost::Stolen,
                // These versions have no word for these losses.
                navlock_wire::Lost::Reset | navlock_wire::Lost::Removed if version < 4 => {
                    navlock_wire::Lost::Disconnected
                }
                how => how,
            };
            FromDaemon::Lost { request, how }
        }
        Outcome::Register => FromDaemon::Register,
    }
}
