//! The held lock set. A lock gets its fencing token here, when it is appended to the set.

use crate::{
    FencingToken, LockManager,
    links::ResourceIndex,
    list::{by_agent, by_name},
    request::{NodeLinks, Owner},
};

impl<T> LockManager<T> {
    /// Appends the node at `index` to the held lock set. The node is in no list yet, and may be added
    /// to [`Nodes`](crate::nodes::Nodes) after this call. Returns the fencing token, which is made
    /// here, and the links that the node has to get.
    #[inline]
    pub(crate) fn append_to_held(&mut self, index: u32, owner: Owner) -> (FencingToken, NodeLinks) {
        let token = FencingToken::new(self.next_token);
        self.next_token += 1;

        let Self { resources, agents, nodes, .. } = self;
        let resource = &mut resources[owner.resource.0 as usize];
        resource.held_mode = owner.mode;
        let links = NodeLinks {
            by_name: resource.held.push_back(nodes, index, by_name),
            by_agent: agents[owner.agent.0 as usize].locks.push_back(nodes, index, by_agent),
        };
        (token, links)
    }

    /// Takes the lock at `index` out of the held lock set, and forgets it. Returns its resource and
    /// the host's data.
    #[inline]
    pub(crate) fn remove_from_held(&mut self, index: u32) -> (ResourceIndex, T)
    where
        T: Default,
    {
        let (owner, links, data) = self.nodes.remove(index);
        let Self { resources, agents, nodes, .. } = self;
        let held = &mut resources[owner.resource.0 as usize].held;
        held.remove(nodes, links.by_name, by_name);
        let locks = &mut agents[owner.agent.0 as usize].locks;
        locks.remove(nodes, links.by_agent, by_agent);
        (owner.resource, data)
    }
}
