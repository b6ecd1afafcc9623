//! The locks inside which a client waits because of who has started its process.

use std::{collections::HashMap, iter};

use navlock_engine::RequestId;
use navlock_wire::LockId;

use super::{super::process::Process, ClientRecord};
use crate::surrounding::ancestors;

/// The locks that are held for each process. The number of the process comes with whether another one, a
/// `navlock`, keeps the lock for it.
pub(in super::super) type HeldFor = HashMap<(u32, bool), Vec<LockId>>;

impl ClientRecord {
    /// Adds the locks that this client holds, by the processes for which it holds them.
    pub(in super::super) fn add_held_for(&self, held: &mut HeldFor) {
        for (id, shown) in self.requests.shown().filter(|(_, shown)| shown.token.is_some()) {
            let Some(open) = self.agents.get(&shown.agent).filter(|open| open.info.pid != 0) else {
                continue;
            };
            let (pid, keeper) = (open.info.pid, open.info.keeper);
            let lock = (open.of.client_id.to_bytes(), id.serial());
            held.entry((pid, ![0, pid].contains(&keeper))).or_default().push(lock);
        }
    }

    /// Notes once of each waiting request that it was made inside the locks that are held for the process of its
    /// agent, or for a process above it. Returns whether the system had to be asked for the processes.
    pub(in super::super) fn put_inside_of_ancestors(&mut self, held: &HeldFor) -> bool {
        let Some(pid) = self.process.as_ref().map(Process::number) else { return false };
        let waiting = self.requests.take_untraced().into_iter().filter_map(|(id, agent)| {
            let keeps_for = self.agents.get(&agent)?.info.pid;
            Some((id, Some(keeps_for).filter(|&number| number != pid && number != 0)))
        });
        let waiting: Vec<(RequestId, Option<u32>)> = waiting.collect();
        for (id, keeps_for) in &waiting {
            // A command may have become the program that waits.
            let itself = iter::once((pid, true));
            let theirs = keeps_for.into_iter().flat_map(|&it| iter::once(it).chain(ancestors(it)));
            let above = ancestors(pid).chain(theirs).flat_map(|it| [(it, false), (it, true)]);
            for lock in itself.chain(above).filter_map(|key| held.get(&key)).flatten() {
                self.requests.put_inside(*id, *lock);
            }
        }
        !waiting.is_empty()
    }
}
