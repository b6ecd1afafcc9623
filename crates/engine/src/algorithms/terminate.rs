//! The end of agents.

use crate::{AgentId, Event, LockManager, links::ResourceIndex};

impl<T: Default> LockManager<T> {
    /// Ends all that these agents wait for and hold: first their requests, in the order in which
    /// they were made, then their locks, in the order in which they were granted. Then grants the
    /// requests of others that waited for them.
    ///
    /// Each request and each lock that ends becomes an [`Event::Terminated`], before any
    /// [`Event::Granted`]. Several agents end as one: nothing is granted to one of them because
    /// another ends.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#termination-of-locks>
    pub fn terminate_remaining_locks_and_requests(&mut self, agents: &[AgentId]) {
        // FAST: the queues are processed after all has been removed, not after each removal. The
        //       same requests are granted in the end: the agents' own requests and locks leave in
        //       any case, and the grants to others depend only on what then remains. This spares a
        //       grant to an agent that is ending.
        let mut touched = Vec::new();

        // 1. Their requests.
        for agent in agents {
            let Some(agent) = self.find_agent(*agent) else { continue };
            while let Some(index) = self.agents[agent.0 as usize].requests.first() {
                let event = Event::Terminated(self.id(index));
                let (resource, data) = self.remove_pending(index);
                self.events.push_back((event, data));
                self.note_touched(resource, &mut touched);
            }
        }
        // 2. Their locks.
        for agent in agents {
            let Some(agent) = self.find_agent(*agent) else { continue };
            while let Some(index) = self.agents[agent.0 as usize].locks.first() {
                let event = Event::Terminated(self.id(index));
                let (resource, data) = self.remove_from_held(index);
                self.events.push_back((event, data));
                self.note_touched(resource, &mut touched);
            }
            // The agent has nothing any more.
            self.forget_agent(agent);
        }
        for resource in touched {
            self.resources[resource.0 as usize].touched = false;
            self.process_lock_request_queue(resource);
        }
    }

    /// Adds the resource to `touched` unless it is there.
    fn note_touched(&mut self, resource: ResourceIndex, touched: &mut Vec<ResourceIndex>) {
        let noted = &mut self.resources[resource.0 as usize].touched;
        if !std::mem::replace(noted, true) {
            touched.push(resource);
        }
    }
}
