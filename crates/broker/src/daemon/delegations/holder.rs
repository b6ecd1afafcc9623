//! Who has locks in slots.

use std::sync::Weak;

use navlock_engine::RequestId;

/// Who has locks in slots: a client.
pub(in super::super) trait Holder: Send + Sync {
    /// Has the engine know that a lock of its is free.
    fn release(&self, request: RequestId);
}

/// A lock that is free now, though the engine does not know it yet: whose, and by which request.
pub(in super::super) type Freed = (Weak<dyn Holder>, RequestId);

/// Has the engine know what is free.
pub(in super::super) fn release(freed: Vec<Freed>) {
    for (client, request) in freed {
        // Who is not there any more has released all.
        if let Some(client) = client.upgrade() {
            client.release(request);
        }
    }
}
