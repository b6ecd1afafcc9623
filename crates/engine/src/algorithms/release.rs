//! Releasing a lock.

use crate::{LockManager, RequestId, Status};

impl<T: Default> LockManager<T> {
    /// Releases the lock with this id, and grants the requests that waited for the release.
    ///
    /// Does nothing if the id is not that of a held lock. So the holder of a stolen lock may still
    /// release it.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#algorithm-release-lock>
    #[inline]
    pub fn release_lock(&mut self, id: RequestId) {
        if matches!(self.status(id), Status::Held(_)) {
            self.release(id);
        }
    }

    /// Releases the lock with this id, which is known to be held.
    #[inline]
    pub(crate) fn release(&mut self, id: RequestId) -> T {
        // 1. BY TYPE: `&mut self` is the lock task queue.
        // 2–5. The lock knows its resource.
        // 6.
        let (resource, data) = self.remove_from_held(id.index);
        // 7.
        self.process_lock_request_queue(resource);
        data
    }
}
