//! A query that is not answered yet.

use navlock_core::Error;
use tokio::sync::oneshot;

use super::owner_part::OwnerPart;
use crate::{
    clock::Uptime,
    keys::NameKey,
    query::{Asks, QueryResult},
};

/// The question of a caller: what is held, and who waits.
pub(super) struct Query {
    pub(super) bucket: u64,
    /// The name that is asked about; `None` for all names.
    pub(super) name: Option<NameKey>,
    pub(super) most: usize,
    pub(super) asks: Asks,
    /// Everything up to this number must be done first, so that the caller sees its own requests,
    /// and no lock that it has released.
    pub(super) after: u64,
    pub(super) rounds: u32,
    pub(super) is_asking: bool,
    /// The revision of the first list. What an owner says counts if it was asked after that; the largest
    /// number before there is a list.
    pub(super) since: i64,
    /// What only owners know, for a list that is on its way of the revision at which that was so.
    pub(super) cut: Option<(i64, Vec<OwnerPart>)>,
    /// Whether the owner of a name was asked what it holds.
    pub(super) asks_owners: bool,
    /// Until when the query waits for an owner's answer. After that, time is left to say that there
    /// was no answer.
    pub(super) shown_by: Uptime,
    pub(super) deadline: Uptime,
    pub(super) answer: oneshot::Sender<Result<QueryResult, Error>>,
}
