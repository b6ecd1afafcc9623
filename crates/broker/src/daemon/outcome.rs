//! What became of a request.

use navlock_core::{ClientId, Error, Lost};
use navlock_engine::FencingToken;

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
