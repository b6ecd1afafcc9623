//! Requesting a lock.

use crate::{
    AgentId, Event, FencingToken, HashedName, LockManager, Mode, RequestId, RequestKind,
    ResourceName, links::ResourceIndex, request::Owner,
};

/// What became of a request at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The request is a lock from now on, with this token.
    Granted(FencingToken),
    /// The lock could not be had at once, and only that was asked for. The id means nothing.
    Unavailable,
    /// The request waits. [`Event::Granted`] will tell of its grant.
    Pending,
}

impl<T: Default> LockManager<T> {
    /// Makes a request for a lock on `name`, as `agent`.
    ///
    /// The request ends in [`Event::Granted`] now or later, or, for [`RequestKind::IfAvailable`],
    /// in [`Event::Unavailable`] now. [`RequestKind::Steal`] puts an [`Event::Stolen`] for each
    /// victim before its own grant.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#algorithm-request-lock>
    pub fn request_lock(
        &mut self,
        agent: AgentId,
        name: &ResourceName,
        kind: RequestKind,
    ) -> RequestId {
        let name = self.hasher.clone().hash(name);
        let (id, outcome) = self.request_lock_hashed(agent, name, kind);
        match outcome {
            Outcome::Granted(_) => self.events.push_back((Event::Granted(id), T::default())),
            Outcome::Unavailable => self.events.push_back((Event::Unavailable(id), T::default())),
            Outcome::Pending => {}
        }
        id
    }

    /// Requests a lock whose name the host has hashed already, with a clone of the hasher that this
    /// lock manager was [made with](Self::new).
    ///
    /// The return value says what became of the request. No event says it: the call makes events for
    /// other requests and locks alone.
    #[inline]
    pub fn request_lock_hashed(
        &mut self,
        agent: AgentId,
        name: HashedName<'_>,
        kind: RequestKind,
    ) -> (RequestId, Outcome) {
        let agent = self.get_agent(agent);

        // 1. The request. Its callback and promise stay with the host, which finds them by the id.
        let serial = self.next_serial;
        self.next_serial += 1;
        // 2. HOST: the signal's abort algorithm is a call of `finish`.
        // 3. BY TYPE: `&mut self` is the lock task queue, one caller at a time.
        // 3.1–3.3 The name's queue and held locks.
        let resource = self.get_lock_request_queue(name);

        let outcome = match kind {
            // 3.4.1 Every holder of the name loses its lock; HOST: rejects its promise.
            // 3.4.2, 3.6 FAST: at the front of the queue, with no held lock left, the request would be
            //            granted at once. No request behind it would be granted: a steal is exclusive.
            RequestKind::Steal => {
                self.steal(resource);
                Outcome::Granted(self.next_token())
            }
            // 3.5.2, 3.6 FAST: in an empty queue the request would be granted at once.
            _ if self.is_grantable_if_enqueued(resource, kind.mode()) => {
                Outcome::Granted(self.next_token())
            }
            // 3.5.1 The lock is not available. HOST: runs the callback without a lock.
            RequestKind::IfAvailable(_) => {
                return (RequestId { serial, index: u32::MAX }, Outcome::Unavailable);
            }
            // 3.5.2, 3.6 FAST: the front request was not grantable before, and a new request at the
            //            end does not change that. In an empty queue, the new request is not grantable.
            RequestKind::Wait(_) => Outcome::Pending,
        };

        let index = self.nodes.next_index();
        let owner = Owner { resource, agent, mode: kind.mode() };
        let (token, links) = if outcome == Outcome::Pending {
            (None, self.enqueue(index, owner))
        } else {
            let (token, links) = self.append_to_held(index, owner);
            (Some(token), links)
        };
        self.nodes.add(serial, owner, links, token);

        // 4.
        (RequestId { serial, index }, outcome)
    }

    /// Takes the locks of the name from all who hold them.
    fn steal(&mut self, ResourceIndex(resource): ResourceIndex) {
        while let Some(victim) = self.resources[resource as usize].held.first() {
            let event = Event::Stolen(self.id(victim));
            let (_, data) = self.remove_from_held(victim);
            self.events.push_back((event, data));
        }
    }

    /// Whether a new request would be grantable: nobody waits, and the held locks admit this mode.
    ///
    /// Spec, "grantable": <https://w3c.github.io/web-locks/#concept-lock-request>
    #[inline]
    fn is_grantable_if_enqueued(&self, ResourceIndex(index): ResourceIndex, mode: Mode) -> bool {
        let resource = &self.resources[index as usize];
        resource.queue.is_empty() && resource.admits(mode)
    }
}
