//! The held lock set.

use crate::{
    FencingToken, LockManager,
    list::{BY_AGENT, BY_NAME},
    request::Node,
    resource::ResourceIndex,
};

impl LockManager {
    /// The token of the next grant, which is now.
    #[inline]
    pub(crate) fn take_token(&mut self) -> FencingToken {
        let token = FencingToken::new(self.next_token);
        self.next_token += 1;
        token
    }

    /// Appends the node, which stands or will stand at `index`, to the held lock set: a lock from
    /// now on. It is in no list before.
    #[inline]
    pub(crate) fn append_to_held(&mut self, index: u32, node: &mut Node) {
        node.held = true;
        node.token = self.take_token();
        let Self { resources, agents, nodes, .. } = self;
        let resource = &mut resources[node.resource.0 as usize];
        resource.held_mode = node.mode;
        node.by_name = resource.held.push_back(nodes, index, BY_NAME);
        let locks = &mut agents[node.agent.0 as usize].locks;
        node.by_agent = locks.push_back(nodes, index, BY_AGENT);
    }

    /// Takes the lock at `index` out of the held lock set, and forgets it.
    #[inline]
    pub(crate) fn remove_from_held(&mut self, index: u32) -> ResourceIndex {
        let node = self.nodes.remove(index as usize);
        let Self { resources, agents, nodes, .. } = self;
        resources[node.resource.0 as usize].held.remove(nodes, node.by_name, BY_NAME);
        agents[node.agent.0 as usize].locks.remove(nodes, node.by_agent, BY_AGENT);
        node.resource
    }
}
