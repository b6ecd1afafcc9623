//! Requesting a lock.

use crate::{
    AgentId, Event, LockManager, Mode, RequestId, RequestKind, ResourceName, list::Links,
    queue::to_index, request::Node, resource::ResourceIndex,
};

impl LockManager {
    /// Makes a request for a lock on `name`, as `agent`.
    ///
    /// Ends in [`Event::Granted`] now or later, or, for [`RequestKind::IfAvailable`], in
    /// [`Event::Unavailable`] now. [`RequestKind::Steal`] puts an [`Event::Stolen`] for each
    /// victim before its own grant.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#algorithm-request-lock>
    pub fn request_lock(
        &mut self,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
    ) -> RequestId {
        self.make_room_for(agent);

        // 1. The request. Its callback and promise stay with the host, which finds them by the id.
        let serial = self.next_serial;
        self.next_serial += 1;
        // 2. HOST: the signal's abort algorithm is a call of `finish`.
        // 3. BY TYPE: `&mut self` is the lock task queue, one caller at a time.
        // 3.1–3.3 The name's queue and held locks.
        let resource = self.get_lock_request_queue(name);

        // 3.5.1 Not to be had at once: the host runs the callback without a lock.
        //       FAST: decided before the request takes a place, since it would leave it at once.
        if let RequestKind::IfAvailable(mode) = kind {
            if !self.is_grantable_if_enqueued(resource, mode) {
                let id = RequestId { serial, index: u32::MAX };
                self.events.push_back(Event::Unavailable(id));
                return id;
            }
        }

        let index = to_index(self.nodes.insert(Node {
            serial,
            resource,
            by_name: Links::UNLINKED,
            by_agent: Links::UNLINKED,
            agent,
            mode: kind.mode(),
            token: None,
        }));

        if kind == RequestKind::Steal {
            // 3.4.1 Every holder of the name loses its lock; HOST: rejects its promise.
            while let Some(victim) = self.resources[resource.0 as usize].held.first() {
                self.events.push_back(Event::Stolen(self.id(victim)));
                self.remove_from_held(victim);
                self.nodes.remove(victim as usize);
            }
            // 3.4.2 Before all who wait.
            self.prepend(index);
        } else {
            // 3.5.2 Behind all who wait.
            self.enqueue(index);
        }

        // 3.6
        self.process_lock_request_queue(resource);

        // 4.
        RequestId { serial, index }
    }

    /// Whether a new request would be grantable: nobody waits, and the held locks admit it.
    ///
    /// Spec, "grantable": <https://w3c.github.io/web-locks/#concept-lock-request>
    #[inline]
    fn is_grantable_if_enqueued(&self, ResourceIndex(index): ResourceIndex, mode: Mode) -> bool {
        let resource = &self.resources[index as usize];
        resource.queue.is_empty() && resource.admits(mode)
    }

    /// Lets `agents` reach as far as this agent's number.
    #[inline]
    fn make_room_for(&mut self, agent: AgentId) {
        if agent.index() >= self.agents.len() {
            self.agents.resize_with(agent.index() + 1, Default::default);
        }
    }
}
