//! What a bucket asks of its host.

use navlock_core::host::RequestKind;
use navlock_engine::RequestId;

use crate::{
    keys::{NameKey, RequestKey},
    slots::Owner,
    table::{AgentSerial, Status},
    transactions::{Ask, Owning},
};

/// What the bucket asks of its host.
pub(crate) trait BucketHost {
    /// The owner of a key that this revision has made.
    fn owner(&self, key: RequestKey, made: i64) -> Owner;
    /// The status of a request of this connection.
    fn status(&self, id: RequestId) -> Status;
    /// What to write for a request. `Err` if its agent has to wait for a lease, `None` if nobody
    /// wants the request any more.
    fn ask(
        &mut self,
        agent: AgentSerial,
        request: RequestId,
    ) -> Option<Result<(Ask, RequestKind), Wait>>;
    /// To be called if a request is not written for now after all: the store knows nothing of it.
    fn keep_back(&mut self, request: RequestId);
    /// Answers a request that does not wait, if it was not written: the name is not to be had.
    fn refuse(&mut self, request: RequestId);
    /// The owner key to write to own this name, if this connection may own it.
    fn owning(&self, name: &NameKey) -> Option<Owning>;
    /// The number by which keys name this connection.
    fn me(&self) -> u128;
}

/// Says that the agent has no lease yet, and that its request has to wait for one.
#[derive(Debug)]
pub(crate) struct Wait;
