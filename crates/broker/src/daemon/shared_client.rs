//! A client that its session shares with others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use navlock_core::{ResourceName, host::RequestKind};
use navlock_engine::RequestId;
use navlock_wire::Agent;

use super::{
    client_record::ClientRecord,
    delegations::{Delegations, Holder},
};

/// A client, shared by its session and by those who go through all clients.
///
/// A thread that has one client locked may lock no other client, nor the daemon's table of clients.
pub(super) type SharedClient = Arc<Mutex<ClientRecord>>;

/// Locks a client.
pub(super) fn lock(client: &SharedClient) -> MutexGuard<'_, ClientRecord> {
    // A poisoned mutex may be used: after a panic the session has ended, and the locks of its
    // client must still be ended.
    client.lock().unwrap_or_else(PoisonError::into_inner)
}

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
        self.lock().unwrap_or_else(PoisonError::into_inner).finish(request);
    }
}
