//! What a bucket asks of its surroundings.

use navlock_core::host::RequestKind;
use navlock_engine::RequestId;

use crate::{
    keys::{NameKey, RequestKey},
    slots::Owner,
    table::{AgentSerial, Status},
    transactions::{Ask, Owning},
};

/// What the bucket asks of its surroundings.
pub(crate) trait Surroundings {
    /// Whose a key is that was made by this revision.
    fn owner(&self, key: RequestKey, made: i64) -> Owner;
    /// How a request of ours stands.
    fn status(&self, id: RequestId) -> Status;
    /// What to write for a request. `Err` if its agent has to wait for a lease, `None` if nobody
    /// wants it any more.
    fn ask(
        &mut self,
        agent: AgentSerial,
        request: RequestId,
    ) -> Option<Result<(Ask, RequestKind), Wait>>;
    /// What was to be written for a request is not, for now: etcd knows nothing of it.
    fn keep_back(&mut self, request: RequestId);
    /// What to write to have this name be ours, if that may be.
    fn owning(&self, name: &NameKey) -> Option<Owning>;
    /// Who we are, in keys.
    fn me(&self) -> u128;
}

/// It has no lease yet.
#[derive(Debug)]
pub(crate) struct Wait;
