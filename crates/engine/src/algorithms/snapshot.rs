//! The snapshot of the lock state.

use crate::{AgentId, LockManager, Mode, RequestId, ResourceName, request::Node};

/// One lock or one pending request, as a snapshot shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// The name that is held or waited for.
    pub name: ResourceName,
    /// In which mode.
    pub mode: Mode,
    /// By which agent; the host knows its client id.
    pub agent: AgentId,
    /// Its id, which the host may know more about.
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

impl<T> LockManager<T> {
    /// The held lock set and all queues, as they are now.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#algorithm-snapshot-state>
    pub fn snapshot_lock_state(&self) -> Snapshot {
        // 1. BY TYPE: nothing changes while `&self` is borrowed.
        // 2, 4. The two lists.
        let mut snapshot = Snapshot::default();
        for (_, resource) in &self.resources {
            let info = |(index, node): (u32, &Node<T>)| LockInfo {
                name: resource.name.clone(),
                mode: node.owner.mode,
                agent: self.agents[node.owner.agent.0 as usize].id,
                id: RequestId { serial: node.serial, index },
            };
            // 3. Every request of every queue, in queue order.
            snapshot.pending.extend(resource.queue.iter_by_name(&self.nodes).map(info));
            // 5. Every lock of the held lock set.
            snapshot.held.extend(resource.held.iter_by_name(&self.nodes).map(info));
        }
        // 6.
        snapshot
    }
}
