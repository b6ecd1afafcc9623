//! The locks inside which a client waits because of who has started its process.

use std::{collections::HashMap, iter};

use navlock_core::{ClientId, look::LockId};
use navlock_engine::RequestId;
use navlock_wire::MAX_INSIDE;

use super::{super::process::Process, ClientRecord};

/// The locks that are held for each command or script, and by each program.
#[derive(Debug, Default)]
pub(in super::super) struct HeldFor {
    /// By the number of the process, with whether another one, a `navlock`, keeps the locks for it.
    kept: HashMap<(u32, bool), Vec<LockId>>,
    /// By the number of a program that holds them itself, and by its agents. It need not wait for its children.
    by_programs: HashMap<u32, HashMap<ClientId, Vec<LockId>>>,
}

/// The processes above each process, as far as they were looked for.
pub(in super::super) type Ancestors = HashMap<u32, Vec<u32>>;

impl ClientRecord {
    /// Adds the locks that this client holds, by the processes for which it holds them.
    pub(in super::super) fn add_held_for(&self, held: &mut HeldFor) {
        for (id, shown) in self.requests.shown().filter(|(_, shown)| shown.token.is_some()) {
            let Some(open) = self.agents.get(&shown.agent) else { continue };
            let (pid, keeper) = (open.info.pid, open.info.keeper);
            let lock = open.of.id(id);
            if keeper != 0 {
                held.kept.entry((pid, keeper != pid)).or_default().push(lock);
            } else if let Some(process) = &self.process {
                let of_program = held.by_programs.entry(process.number()).or_default();
                of_program.entry(open.of.client_id).or_default().push(lock);
            }
        }
    }

    /// The processes by which requests of this client wait: its own, and those for which it keeps locks.
    pub(in super::super) fn waits_by(&self) -> Vec<u32> {
        let mut numbers: Vec<_> = self.waiting().into_iter().flat_map(|(_, by, _)| by).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Notes of each waiting request that it was made inside the locks that are held for the process of its
    /// agent, or for a process above it.
    pub(in super::super) fn put_inside_of_ancestors(&mut self, held: &HeldFor, known: &Ancestors) {
        for (id, [own, kept_for], is_command) in self.waiting() {
            let above = |number| known.get(&number).into_iter().flatten().copied();
            // A command may have become the program that waits.
            let itself = iter::once((own, true));
            let kept_for = Some(kept_for).filter(|&number| number != own).into_iter();
            let theirs = kept_for.flat_map(|number| iter::once(number).chain(above(number)));
            let above: Vec<_> = above(own).chain(theirs).collect();
            let kept = above.iter().flat_map(|it| [(*it, false), (*it, true)]);
            for lock in itself.chain(kept).filter_map(|key| held.kept.get(&key)).flatten() {
                self.requests.put_inside(id, *lock);
            }
            // A command that is to end in a deadlock takes it for one. Others are told that it may be one.
            let is_certain = is_command && self.requests.gives_way(id);
            let by_programs = above.iter().filter_map(|number| held.by_programs.get(number));
            for (client_id, locks) in by_programs.flatten() {
                let some = [LockId::some_of(*client_id)];
                let locks =
                    if is_certain { locks.iter().take(MAX_INSIDE) } else { some.iter().take(1) };
                locks.for_each(|lock| self.requests.put_inside(id, *lock));
            }
        }
    }

    /// The requests that wait, each with the client's process and the one that its agent waits for, and whether the
    /// agent is a `navlock`.
    fn waiting(&self) -> Vec<(RequestId, [u32; 2], bool)> {
        let Some(own) = self.process.as_ref().map(Process::number) else { return Vec::new() };
        let waiting = self.requests.shown().filter(|(_, shown)| shown.token.is_none());
        let waiting = waiting.filter_map(|(id, shown)| {
            let info = &self.agents.get(&shown.agent)?.info;
            let kept_for = if info.pid == 0 { own } else { info.pid };
            Some((id, [own, kept_for], info.keeper != 0))
        });
        waiting.collect()
    }
}
