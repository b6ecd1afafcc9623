//! A client, as those share it who have to do with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use navlock_core::{ResourceName, host::RequestKind};
use navlock_engine::RequestId;
use navlock_wire::Agent;

use super::{
    client::Client,
    delegations::{Delegations, Holder},
};

/// A client, for its session and for those who look at all clients.
///
/// Nobody who has one of these locked locks another, or the daemon.
pub(super) type SharedClient = Arc<Mutex<Client>>;

/// Locks a client.
pub(super) fn lock(client: &SharedClient) -> MutexGuard<'_, Client> {
    // A session that panicked has ended; what its client had is still to be ended too.
    client.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has nobody own a name whom this request of an agent would have to wait for: see
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

impl Holder for Mutex<Client> {
    fn release(&self, request: RequestId) {
        self.lock().unwrap_or_else(PoisonError::into_inner).finish(request);
    }
}
