//! The clients of locks in slots, and the locks that these clients have released.

use std::sync::Weak;

use navlock_engine::RequestId;

/// A client that has locks in slots.
pub(in super::super) trait Holder: Send + Sync {
    /// Tells the engine that a lock of this client is free.
    fn release(&self, request: RequestId);
}

/// A lock that is free, which the engine does not know yet: its client and its request.
pub(in super::super) type Freed = (Weak<dyn Holder>, RequestId);

/// Tells the engine which locks are free.
pub(in super::super) fn release(freed: Vec<Freed>) {
    for (client, request) in freed {
        // All locks of a client that has gone are released already.
        if let Some(client) = client.upgrade() {
            client.release(request);
        }
    }
}
