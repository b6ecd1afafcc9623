//! A client that its session shares with others.

use std::sync::{Arc, Mutex};

use navlock_core::{ResourceName, host::RequestKind};
use navlock_engine::RequestId;
use navlock_wire::Agent;

use super::{
    client_record::ClientRecord,
    delegations::{Delegations, Holder},
};
pub(super) use crate::sync::lock;

/// A client, shared by its session and by those who go through all clients.
///
/// A thread that has one client locked may lock no other client, nor the daemon's table of clients.
pub(super) type SharedClient = Arc<Mutex<ClientRecord>>;

/// Recalls the owners of a name for whom this request of an agent would have to wait: see
/// [`Delegations::settle`]. To be called with no client locked.
pub(super) fn settle_for(
    delegations: Option<&Arc<Delegations>>,
    client: &SharedClient,
    agent: Agent,
    name: &ResourceName,
    kind: RequestKind,
) {
    if let Some(delegations) = delegations {
        let bucket = lock(client).bucket(agent).cloned();
        if let Some(bucket) = bucket {
            delegations.settle(&bucket, name, kind);
        }
    }
}

impl Holder for Mutex<ClientRecord> {
    fn release(&self, request: RequestId) {
        lock(self).finish(request);
    }
}
