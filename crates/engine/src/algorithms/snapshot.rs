//! The snapshot of the lock state.

use crate::{
    AgentId, LockManager, Mode, RequestId, ResourceName, request::Node, resource::Resource,
};

/// One lock or one pending request, as a snapshot shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// The name that is held or waited for.
    pub name: ResourceName,
    /// In which mode.
    pub mode: Mode,
    /// By which agent; the host knows its client id.
    pub agent: AgentId,
    /// Its id, by which the host may know more about it.
    pub id: RequestId,
}

/// What was held and what was pending at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The held locks: per name in the order of their grants, names in no particular order.
    pub held: Vec<LockInfo>,
    /// The pending requests: per name in the order in which they will be granted, names in no
    /// particular order.
    pub pending: Vec<LockInfo>,
}

/// Where a request stands in the queue of its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuePosition {
    /// The first of those who hold the name.
    pub holder: Option<LockInfo>,
    /// How many hold it.
    pub holders: usize,
    /// How many requests are before this one; `None` if it is not in the queue.
    pub ahead: Option<usize>,
}

impl<T> LockManager<T> {
    /// The held lock set and all queues, as they are now.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#algorithm-snapshot-state>
    pub fn snapshot_lock_state(&self) -> Snapshot {
        // 1. BY TYPE: nothing changes while `&self` is borrowed.
        // 2, 4. The two lists.
        let mut snapshot = Snapshot::default();
        for (_, resource) in &self.resources {
            self.show(resource, &mut snapshot);
        }
        // 6.
        snapshot
    }

    /// What is held and what is pending of one name. The time is linear in the answer, however many
    /// other names there are.
    pub fn snapshot_of(&self, name: &ResourceName) -> Snapshot {
        let mut snapshot = Snapshot::default();
        if let Some(resource) = self.resource(name) {
            self.show(resource, &mut snapshot);
        }
        snapshot
    }

    /// Where the first request of an agent stands in the queue of `name`. `is_its` says whether an
    /// agent is the one that is looked for. The time is linear in the requests before that one, and in
    /// the holders.
    pub fn position(&self, name: &ResourceName, is_its: impl Fn(AgentId) -> bool) -> QueuePosition {
        let Some(resource) = self.resource(name) else { return QueuePosition::default() };
        let mut held = resource.held.iter_by_name(&self.nodes);
        let mut pending = resource.queue.iter_by_name(&self.nodes);
        let holder = held.next().map(|node| self.info(resource, node));
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

    fn show(&self, resource: &Resource, snapshot: &mut Snapshot) {
        let info = |node| self.info(resource, node);
        // 3. Every request of every queue, in queue order.
        snapshot.pending.extend(resource.queue.iter_by_name(&self.nodes).map(info));
        // 5. Every lock of the held lock set.
        snapshot.held.extend(resource.held.iter_by_name(&self.nodes).map(info));
    }

    fn info(&self, resource: &Resource, (index, node): (u32, &Node<T>)) -> LockInfo {
        LockInfo {
            name: resource.name.clone(),
            mode: node.owner.mode,
            agent: self.agent(node),
            id: RequestId { serial: node.serial, index },
        }
    }

    fn agent(&self, node: &Node<T>) -> AgentId {
        self.agents[node.owner.agent.0 as usize].id
    }
}
