//! The lock request queue map: names, their queues, and who is first.

use hashbrown::hash_table;

use crate::{
    HashedName, LockManager,
    list::{BY_AGENT, BY_NAME, NONE},
    resource::{Resource, ResourceIndex},
};

impl LockManager {
    /// The resource of `name`, made if the name is new.
    ///
    /// Spec, "get the lock request queue": <https://w3c.github.io/web-locks/#concept-lock-request>
    #[inline]
    pub(crate) fn get_lock_request_queue(
        &mut self,
        HashedName { name, hash }: HashedName<'_>,
    ) -> ResourceIndex {
        let Self { names, resources, .. } = self;
        let entry = names.entry(
            hash,
            |&index| resources[index as usize].name == *name,
            |&index| resources[index as usize].hash,
        );
        match entry {
            hash_table::Entry::Occupied(known) => ResourceIndex(*known.get()),
            // 1. A name that is not in the map gets a new, empty queue.
            hash_table::Entry::Vacant(vacant) => {
                let index = to_index(resources.insert(Resource::new(name.clone(), hash)));
                vacant.insert(index);
                ResourceIndex(index)
            }
        }
        // 2. It is the name's queue.
    }

    /// Removes the resource if nobody holds it and nobody waits for it.
    ///
    /// The specification's map only ever grows, which no script can see; ours forgets.
    #[inline]
    pub(crate) fn forget_if_idle(&mut self, ResourceIndex(index): ResourceIndex) {
        if !self.resources[index as usize].is_idle() {
            return;
        }
        let resource = self.resources.remove(index as usize);
        if let Ok(entry) = self.names.find_entry(resource.hash, |&candidate| candidate == index) {
            entry.remove();
        }
        self.give_back_memory();
    }

    /// Appends the request at `index`, which is in no list, to the queue of its name.
    #[inline]
    pub(crate) fn enqueue(&mut self, index: u32) {
        let node = &self.nodes[index as usize];
        let (resource, agent) = (node.resource, node.agent);
        self.resources[resource.0 as usize].queue.push_back(&mut self.nodes, index, BY_NAME);
        self.agents[agent.0 as usize].requests.push_back(&mut self.nodes, index, BY_AGENT);
    }

    /// Takes the pending request at `index` out of its queue and of its agent's list.
    #[inline]
    pub(crate) fn unlink_pending(&mut self, index: u32) -> ResourceIndex {
        let node = &self.nodes[index as usize];
        let (resource, agent) = (node.resource, node.agent);
        self.resources[resource.0 as usize].queue.remove(&mut self.nodes, index, BY_NAME);
        self.agents[agent.0 as usize].requests.remove(&mut self.nodes, index, BY_AGENT);
        resource
    }
}

/// A slab's key, narrowed.
#[inline]
pub(crate) fn to_index(key: usize) -> u32 {
    let index = u32::try_from(key).ok().filter(|&index| index != NONE);
    index.expect("memory ends before a slab has 2^32 entries of 48 bytes")
}
