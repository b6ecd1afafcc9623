//! Keys that have gone, which have to be looked at again.

use navlock_engine::RequestId;

use crate::{clock::Uptime, keys::NameKey};

/// A key of this connection that has gone, with its lease or by itself.
#[derive(Debug)]
pub(super) struct Gone {
    pub(super) lease: i64,
    pub(super) name: NameKey,
    pub(super) id: RequestId,
    /// The revision in which the key was deleted.
    pub(super) revision: i64,
    /// When this connection heard that the key has gone.
    pub(super) since: Uptime,
}
