//! A query that is not answered yet.

use std::collections::HashMap;

use navlock_core::Error;
use tokio::sync::oneshot;

use crate::{clock::Uptime, hash::HashState, keys::NameKey, query::Seen};

/// Somebody wants to know.
pub(super) struct Query {
    pub(super) bucket: u64,
    /// About this name, or all.
    pub(super) name: Option<NameKey>,
    pub(super) most: usize,
    /// Whether who owns a name is asked what is held of it.
    pub(super) asks: bool,
    /// All that was to be done up to this number comes first: who asks sees its own requests, and
    /// not what it has released.
    pub(super) after: u64,
    pub(super) rounds: u32,
    pub(super) is_asking: bool,
    /// How often each name of ours had been granted that nobody used when it was asked.
    pub(super) idle: HashMap<NameKey, u64, HashState>,
    /// An owner of a name was asked what it holds.
    pub(super) asks_owners: bool,
    /// Until when it is waited for that, so that there is time left to say that it has not.
    pub(super) shown_by: Uptime,
    pub(super) deadline: Uptime,
    pub(super) answer: oneshot::Sender<Result<Seen, Error>>,
}
