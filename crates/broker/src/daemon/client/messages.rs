//! What a client is told.

use navlock_engine::RequestId;
use navlock_wire::FromDaemon;

use super::super::outcome::Outcome;
use crate::convert::{failure, how_lost};

/// What the client is told of it, in this version of the protocol.
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
                // What this version has no word for: gone is gone.
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
