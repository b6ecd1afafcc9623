//! A query that is not answered yet.

use std::collections::HashMap;

use navlock_core::Error;
use tokio::sync::oneshot;

use crate::{clock::Uptime, hash::HashState, keys::NameKey, query::QueryResult};

/// The question of a caller: what is held, and who waits.
pub(super) struct Query {
    pub(super) bucket: u64,
    /// The name that is asked about; `None` for all names.
    pub(super) name: Option<NameKey>,
    pub(super) most: usize,
    /// Whether owners of names are asked what is held of them.
    pub(super) asks: bool,
    /// Everything up to this number must be done first, so that the caller sees its own requests,
    /// and no lock that it has released.
    pub(super) after: u64,
    pub(super) rounds: u32,
    pub(super) is_asking: bool,
    /// The names that this connection owned and nobody used when the query came. For each, how
    /// often it had been granted at that time.
    pub(super) idle: HashMap<NameKey, u64, HashState>,
    /// Whether the owner of a name was asked what it holds.
    pub(super) asks_owners: bool,
    /// Until when the query waits for an owner's answer. After that, time is left to say that there
    /// was no answer.
    pub(super) shown_by: Uptime,
    pub(super) deadline: Uptime,
    pub(super) answer: oneshot::Sender<Result<QueryResult, Error>>,
}
