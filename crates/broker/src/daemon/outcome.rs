//! What became of a request.

use navlock_core::{ClientId, Error, Lost};
use navlock_engine::{FencingToken, RequestId};
use navlock_wire::FromDaemon;

use crate::convert::failure;

/// What became of a request, or of the lock that the request became.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The lock is granted, and whether it stands in the slot that the client has reserved for it.
    Granted(FencingToken, bool),
    Unavailable,
    Failed(Error),
    /// How the lock was lost, and who has stolen it, if it was stolen.
    Lost(Lost, Option<ClientId>),
    /// The outcome of no request: the client has to check its own file.
    Register,
}

impl Outcome {
    /// The message that tells a client this outcome of its request.
    pub(super) fn into_message(self, request: RequestId) -> FromDaemon {
        match self {
            Self::Granted(token, in_slot) => FromDaemon::Granted { request, token, in_slot },
            Self::Unavailable => FromDaemon::Unavailable { request },
            Self::Failed(error) => FromDaemon::Failed { request, failure: failure(&error) },
            Self::Lost(lost, stolen_by) => FromDaemon::Lost { request, how: (lost, stolen_by) },
            Self::Register => FromDaemon::Register,
        }
    }
}
