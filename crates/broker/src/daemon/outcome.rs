//! What became of a request.

use navlock_core::{ClientId, Error, Lost};
use navlock_engine::FencingToken;

/// What became of a request, or of the lock that it was.
#[derive(Debug)]
pub(super) enum Outcome {
    Granted(FencingToken),
    /// It is granted, and stands in the slot that the client has reserved for it.
    GrantedInSlot(FencingToken),
    Unavailable,
    Failed(Error),
    /// How, and by whom if it was stolen.
    Lost(Lost, Option<ClientId>),
    /// Of no request: the client is to see to its file.
    Register,
}
