//! The lock request queue map: names, their queues, and who is first.

use hashbrown::hash_table;

use crate::{
    LockManager, ResourceName,
    list::{BY_AGENT, BY_NAME},
    resource::{Resource, ResourceIndex},
};

impl LockManager {
    /// The resource of `name`, made if the name is new.
    ///
    /// Spec, "get the lock request queue": <https://w3c.github.io/web-locks/#concept-lock-request>
    #[inline]
    pub(crate) fn get_lock_request_queue(&mut self, name: &ResourceName) -> ResourceIndex {
        let hash = self.hash(name);
        let Self { names, resources, hasher, .. } = self;
        let entry = names.entry(
            hash,
            |&index| resources[index as usize].name == *name,
            |&index| hash_of(hasher, &resources[index as usize].name),
        );
        match entry {
            hash_table::Entry::Occupied(known) => ResourceIndex(*known.get()),
            // 1. A name that is not in the map gets a new, empty queue.
            hash_table::Entry::Vacant(vacant) => {
                let index = to_index(resources.insert(Resource::new(name.clone())));
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
        let hash = self.hash(&resource.name);
        if let Ok(entry) = self.names.find_entry(hash, |&candidate| candidate == index) {
            entry.remove();
        }
        self.give_back_memory();
    }

    /// Appends the pending request at `index` to the queue of its name and to its agent's list.
    #[inline]
    pub(crate) fn enqueue(&mut self, index: u32) {
        self.link_pending(index, Position::Back);
    }

    /// Puts the pending request at `index` before all others of its name.
    pub(crate) fn prepend(&mut self, index: u32) {
        self.link_pending(index, Position::Front);
    }

    #[inline]
    fn link_pending(&mut self, index: u32, position: Position) {
        let node = &self.nodes[index as usize];
        let (resource, agent) = (node.resource, node.agent);
        let queue = &mut self.resources[resource.0 as usize].queue;
        match position {
            Position::Front => queue.push_front(&mut self.nodes, index, BY_NAME),
            Position::Back => queue.push_back(&mut self.nodes, index, BY_NAME),
        }
        self.agents[agent.index()].requests.push_back(&mut self.nodes, index, BY_AGENT);
    }

    /// Takes the pending request at `index` out of its queue and of its agent's list.
    #[inline]
    pub(crate) fn unlink_pending(&mut self, index: u32) -> ResourceIndex {
        let node = &self.nodes[index as usize];
        let (resource, agent) = (node.resource, node.agent);
        self.resources[resource.0 as usize].queue.remove(&mut self.nodes, index, BY_NAME);
        self.agents[agent.index()].requests.remove(&mut self.nodes, index, BY_AGENT);
        resource
    }

    #[inline]
    pub(crate) fn hash(&self, name: &ResourceName) -> u64 {
        hash_of(&self.hasher, name)
    }
}

/// Where in a queue.
#[derive(Clone, Copy)]
enum Position {
    Front,
    Back,
}

#[inline]
fn hash_of(hasher: &foldhash::quality::RandomState, name: &ResourceName) -> u64 {
    std::hash::BuildHasher::hash_one(hasher, name)
}

/// A slab's key, narrowed: see [`crate::list`] for why it fits.
#[inline]
pub(crate) fn to_index(key: usize) -> u32 {
    u32::try_from(key).expect("memory ends before a slab has 2^32 entries of 48 bytes")
}
