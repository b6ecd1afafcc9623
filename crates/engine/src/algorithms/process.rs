//! Processing a lock request queue.

use std::mem;

use crate::{Event, LockManager, links::ResourceIndex, request::Stage};

impl<T> LockManager<T> {
    /// Grants requests from the front of the queue until one has to wait, and forgets the name if
    /// nobody is left.
    ///
    /// Every grant becomes one [`Event::Granted`], in queue order. The engine never runs a
    /// callback: that belongs to the host which takes the event.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#algorithm-process-request>
    ///
    /// # Invariant
    ///
    /// On return the front request, if there is one, is not grantable. Whatever shortens a queue
    /// or the held lock set must therefore end by calling this.
    #[inline]
    pub(crate) fn process_lock_request_queue(&mut self, resource: ResourceIndex)
    where
        T: Default,
    {
        // 1. BY TYPE: `&mut self` is the lock task queue.
        // 2.1 The front request, while it is grantable; else stop. No other request is ever
        //     grantable, so this is a loop over the front, and never a recursion.
        while let Some(index) = self.grantable_front(resource) {
            // 2.2
            let node = &self.nodes[index];
            let owner = node.owner;
            self.unlink_pending(owner, node.links);
            // 2.3–2.12 The request becomes a lock in place, with its id; promises, callback and
            //          signal are the host's.
            // 2.13 The lock is held from now on, before anyone can be told.
            let (token, links) = self.append_to_held(index, owner);
            let node = &mut self.nodes[index];
            (node.stage, node.token, node.links) = (Stage::Held, token, links);
            let data = mem::take(&mut node.data);
            // 2.14 HOST: on the event, looks at the signal, then runs the callback.
            self.events.push_back((Event::Granted(self.id(index)), data));
        }
        self.forget_if_idle(resource);
    }

    /// The first request of the queue, if it is grantable.
    ///
    /// Spec, "grantable": <https://w3c.github.io/web-locks/#concept-lock-request>
    #[inline]
    fn grantable_front(&self, ResourceIndex(index): ResourceIndex) -> Option<u32> {
        let resource = &self.resources[index as usize];
        // 1–6. BY TYPE: the resource is the name's queue and held locks.
        // 7. Only the first request can be.
        let front = resource.queue.first()?;
        // 8–9. It is if the held locks of the name admit its mode.
        resource.admits(self.nodes[front].owner.mode).then_some(front)
    }
}
