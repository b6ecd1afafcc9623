//! The held lock set.

use crate::{
    FencingToken, LockManager,
    list::{BY_AGENT, BY_NAME},
    resource::ResourceIndex,
};

impl LockManager {
    /// Appends the request at `index`, which is in no list, to the held lock set.
    #[inline]
    pub(crate) fn append_to_held(&mut self, index: u32) {
        let token = FencingToken::new(self.next_token);
        self.next_token += 1;

        let node = &mut self.nodes[index as usize];
        node.held = true;
        node.token = token;
        let (resource, agent, mode) = (node.resource, node.agent, node.mode);

        let resource = &mut self.resources[resource.0 as usize];
        resource.held_mode = mode;
        resource.held.push_back(&mut self.nodes, index, BY_NAME);
        self.agents[agent.0 as usize].locks.push_back(&mut self.nodes, index, BY_AGENT);
    }

    /// Takes the lock at `index` out of the held lock set.
    #[inline]
    pub(crate) fn remove_from_held(&mut self, index: u32) -> ResourceIndex {
        let node = &self.nodes[index as usize];
        let (resource, agent) = (node.resource, node.agent);
        self.resources[resource.0 as usize].held.remove(&mut self.nodes, index, BY_NAME);
        self.agents[agent.0 as usize].locks.remove(&mut self.nodes, index, BY_AGENT);
        resource
    }
}
