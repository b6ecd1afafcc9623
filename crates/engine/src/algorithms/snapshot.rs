//! The snapshot of the lock state.

use crate::{
    AgentId, LockManager, Mode, RequestId, ResourceName, request::Node, resource::Resource,
};

/// A held lock or a pending request, with its name borrowed from the lock manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// The name of the resource.
    pub name: &'a ResourceName,
    /// In which mode.
    pub mode: Mode,
    /// By which agent; the host knows its client id.
    pub agent: AgentId,
    /// Its id, by which the host may know more about it.
    pub id: RequestId,
    /// Whether it is a held lock.
    pub is_held: bool,
}

/// Where a request stands in the queue of its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuePosition<'a> {
    /// The first of those who hold the name.
    pub holder: Option<EntryRef<'a>>,
    /// How many hold it.
    pub holders: usize,
    /// How many requests are before this one; `None` if it is not in the queue.
    pub ahead: Option<usize>,
}

impl<T> LockManager<T> {
    /// The held lock set and all queues, as they are now. The locks of a name come before its pending
    /// requests. The locks are in the order of their grants, the requests in the order in which they
    /// will be granted, and the names in no particular order.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#algorithm-snapshot-state>
    pub fn snapshot_lock_state(&self) -> impl Iterator<Item = EntryRef<'_>> {
        // 1. BY TYPE: nothing changes while `&self` is borrowed.
        // 2, 4, 6. HOST: makes the two lists, of entries of its own.
        self.resources.iter().flat_map(|(_, resource)| self.show(resource))
    }

    /// What is held and what is pending of one name. The time is linear in the answer, however many
    /// other names there are.
    pub fn snapshot_of<'a>(
        &'a self,
        name: &ResourceName,
    ) -> impl Iterator<Item = EntryRef<'a>> + use<'a, T> {
        self.resource(name).into_iter().flat_map(|resource| self.show(resource))
    }

    /// Where the first request of an agent stands in the queue of `name`. `is_its` says whether an
    /// agent is the one that is looked for. The time is linear in the requests before that one, and in
    /// the holders.
    pub fn position(
        &self,
        name: &ResourceName,
        is_its: impl Fn(AgentId) -> bool,
    ) -> QueuePosition<'_> {
        let Some(resource) = self.resource(name) else { return QueuePosition::default() };
        let mut held = resource.held.iter_by_name(&self.nodes);
        let mut pending = resource.queue.iter_by_name(&self.nodes);
        let holder = held.next().map(|node| self.entry(resource, node, true));
        QueuePosition {
            holders: usize::from(holder.is_some()) + held.count(),
            holder,
            ahead: pending.position(|(_, node)| is_its(self.agent(node))),
        }
    }

    fn resource(&self, name: &ResourceName) -> Option<&Resource> {
        let name = self.hasher.hash(name);
        let is_its = |&index: &u32| self.resources[index as usize].is(name);
        self.names.find(name.hash, is_its).map(|&index| &self.resources[index as usize])
    }

    fn show<'a>(&'a self, resource: &'a Resource) -> impl Iterator<Item = EntryRef<'a>> {
        // 5. Every lock of the held lock set.
        let held = resource.held.iter_by_name(&self.nodes);
        // 3. Every request of every queue, in queue order.
        let pending = resource.queue.iter_by_name(&self.nodes);
        held.map(|node| self.entry(resource, node, true))
            .chain(pending.map(|node| self.entry(resource, node, false)))
    }

    fn entry<'a>(
        &self,
        resource: &'a Resource,
        (index, node): (u32, &Node<T>),
        is_held: bool,
    ) -> EntryRef<'a> {
        EntryRef {
            name: &resource.name,
            mode: node.owner.mode,
            agent: self.agent(node),
            id: RequestId { serial: node.serial, index },
            is_held,
        }
    }

    fn agent(&self, node: &Node<T>) -> AgentId {
        self.agents[node.owner.agent.0 as usize].id
    }
}
