//! Aborting a request.

use crate::{LockManager, RequestId, Status};

impl<T: Default> LockManager<T> {
    /// Takes the pending request with this id out of its queue, and grants the requests that waited
    /// only because of it.
    ///
    /// Does nothing if the id is not that of a pending request: after the grant, an abort comes too
    /// late. ([`finish`](Self::finish) ends a request as well as a lock.)
    ///
    /// Spec: <https://w3c.github.io/web-locks/#algorithm-abort-request>; "signal to abort the
    /// request" is this call plus the rejection, which is the host's.
    #[inline]
    pub fn abort_request(&mut self, id: RequestId) {
        if self.status(id) == Status::Pending {
            self.abort(id);
        }
    }

    /// Aborts the request with this id, which is known to be pending.
    #[inline]
    pub(crate) fn abort(&mut self, id: RequestId) -> T {
        // 1. BY TYPE: `&mut self` is the lock task queue.
        // 2–5. The request knows its resource.
        // 6.
        let (resource, data) = self.remove_pending(id.index);
        // 7.
        self.process_lock_request_queue(resource);
        data
    }
}
