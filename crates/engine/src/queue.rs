//! The lock request queue map: names, their queues, and who is first.

use std::mem;

use crate::{
    HashedName, LockManager,
    links::{NONE, ResourceIndex, to_index},
    list::{by_agent, by_name},
    request::{NodeLinks, Owner},
    resource::Resource,
};

impl<T> LockManager<T> {
    /// The resource of `name`, made if the name is new.
    ///
    /// Spec, "get the lock request queue": <https://w3c.github.io/web-locks/#concept-lock-request>
    #[inline]
    pub(crate) fn get_lock_request_queue(&mut self, name: HashedName<'_>) -> ResourceIndex {
        // FAST: mostly the name is the one that was asked for last time.
        let last = self.last_resource;
        let resource = match self.resources.get(last.0 as usize) {
            Some(resource) if resource.is(name) => last,
            _ => self.find_resource(name),
        };
        // The resource is not idle any more: whoever asks for it will wait for it or hold it.
        if self.idle == resource.0 {
            self.idle = NONE;
        }
        resource
    }

    /// Finds or makes the resource of a name that is not the last one.
    fn find_resource(&mut self, name: HashedName<'_>) -> ResourceIndex {
        let Self { names, resources, .. } = self;
        let known = names.find(name.hash, |&index| resources[index as usize].is(name));
        let index = match known {
            Some(&known) => known,
            // 1. A name that is not in the map gets a new, empty queue.
            None => self.add_resource(name),
        };
        // 2. The queue of this resource is the name's queue.
        self.last_resource = ResourceIndex(index);
        self.last_resource
    }

    /// Makes the resource of a name that has none.
    fn add_resource(&mut self, HashedName { name, hash }: HashedName<'_>) -> u32 {
        let resource = Resource::new(name.clone(), hash);
        let index = match self.idle {
            NONE => to_index(self.resources.insert(resource)),
            // The new resource takes the place of the idle one.
            idle => {
                self.remove_name(idle);
                self.resources[idle as usize] = resource;
                idle
            }
        };
        let Self { names, resources, .. } = self;
        names.insert_unique(hash, index, |&index| resources[index as usize].hash);
        index
    }

    /// Takes the name of the resource at `index` out of the map.
    fn remove_name(&mut self, index: u32) {
        let hash = self.resources[index as usize].hash;
        if let Ok(entry) = self.names.find_entry(hash, |&candidate| candidate == index) {
            entry.remove();
        }
    }

    /// Forgets the resource if nobody holds it and nobody waits for it. A resource with a short
    /// name is kept as the idle one, and the resource that was idle before is forgotten.
    ///
    /// The specification's map only ever grows, which no script can see; ours forgets.
    #[inline]
    pub(crate) fn forget_if_idle(&mut self, ResourceIndex(index): ResourceIndex) {
        let resource = &self.resources[index as usize];
        if !resource.is_idle() {
            return;
        }
        // FAST: a name that was just released is mostly asked for again at once.
        let forgotten =
            if resource.name.is_short() { mem::replace(&mut self.idle, index) } else { index };
        if forgotten != NONE {
            self.remove_name(forgotten);
            self.resources.remove(forgotten as usize);
        }
        self.give_back_memory();
    }

    /// Appends what will stand at `index` to the queue of its name. Returns the links that it has
    /// to get.
    #[inline]
    pub(crate) fn enqueue(&mut self, index: u32, owner: Owner) -> NodeLinks {
        let Self { resources, agents, nodes, .. } = self;
        let queue = &mut resources[owner.resource.0 as usize].queue;
        let requests = &mut agents[owner.agent.0 as usize].requests;
        NodeLinks {
            by_name: queue.push_back(nodes, index, by_name),
            by_agent: requests.push_back(nodes, index, by_agent),
        }
    }

    /// Takes a pending request out of its queue and of its agent's list.
    #[inline]
    pub(crate) fn unlink_pending(&mut self, owner: Owner, links: NodeLinks) {
        let Self { resources, agents, nodes, .. } = self;
        let queue = &mut resources[owner.resource.0 as usize].queue;
        queue.remove(nodes, links.by_name, by_name);
        let requests = &mut agents[owner.agent.0 as usize].requests;
        requests.remove(nodes, links.by_agent, by_agent);
    }

    /// Takes the pending request at `index` out of its queue, and forgets it. Returns its resource
    /// and the host's data.
    #[inline]
    pub(crate) fn remove_pending(&mut self, index: u32) -> (ResourceIndex, T)
    where
        T: Default,
    {
        let (owner, links, data) = self.nodes.remove(index);
        self.unlink_pending(owner, links);
        (owner.resource, data)
    }
}
