//! Engine and model, side by side.

use std::{collections::HashSet, error::Error, fmt, iter};

use navlock_engine::{
    AgentId, EntryRef, Event, LockManager, Mode, QueuePosition, RequestId, ResourceName,
};

use crate::{Command, Model};

/// The engine and the model. Both get the same commands.
///
/// After each command, this compares everything that can be seen: the events and their order, the
/// status and fencing token of every id that was ever given out, the snapshot, and whether anything
/// is left.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    engine: LockManager,
    model: Model,
    /// Every request that was ever made, with its label, in the order of the requests.
    requests: Vec<(usize, RequestId)>,
}

/// How engine and model differ, or which rule both break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence(String);

impl Comparison {
    /// Applies the command to both.
    ///
    /// # Errors
    ///
    /// [`Divergence`] if the two differ now, or if both are in a state that must never occur. After
    /// an error, there is no use in going on.
    pub fn apply(&mut self, command: &Command) -> Result<(), Divergence> {
        match *command {
            Command::Request { label, agent, ref name, kind } => {
                let id = self.engine.request_lock(agent, name, kind);
                same("number of the request", &id.serial(), &(self.requests.len() as u64))?;
                self.model.request_lock(id, agent, name, kind);
                self.requests.push((label, id));
            }
            Command::Finish(label) => {
                if let Some(id) = self.id(label) {
                    self.engine.finish(id);
                    self.model.finish(id);
                }
            }
            Command::Abort(label) => {
                if let Some(id) = self.id(label) {
                    self.engine.abort_request(id);
                    self.model.abort_request(id);
                }
            }
            Command::Release(label) => {
                if let Some(id) = self.id(label) {
                    self.engine.release_lock(id);
                    self.model.release_lock(id);
                }
            }
            Command::Terminate(ref agents) => {
                self.engine.terminate_remaining_locks_and_requests(agents);
                self.terminates_alike(agents)?;
                self.model.terminate_remaining_locks_and_requests(agents);
            }
        }
        self.compare()
    }

    /// How many requests were made so far.
    pub fn requests_made(&self) -> usize {
        self.requests.len()
    }

    fn id(&self, label: usize) -> Option<RequestId> {
        self.requests.iter().rev().find(|request| request.0 == label).map(|request| request.1)
    }

    /// Checks that other agents see no difference between agents that end all at once, as in the
    /// engine, and agents that end step by step, as in the specification.
    ///
    /// Tokens differ: step by step, locks may be granted to an agent that is ending.
    fn terminates_alike(&self, agents: &[AgentId]) -> Result<(), Divergence> {
        let (mut all_at_once, mut step_by_step) = (self.model.clone(), self.model.clone());
        all_at_once.terminate_remaining_locks_and_requests(agents);
        step_by_step.terminate_step_by_step(agents);

        let (events, literal_events) = (all_at_once.take_events(), step_by_step.take_events());

        let state = sorted(all_at_once.snapshot_lock_state());
        let literal_state = sorted(step_by_step.snapshot_lock_state());
        same("state after termination", &state, &literal_state)?;

        // A lock that was granted to another agent is still held, and a lock that was granted to an
        // ending agent is not. So the order of held locks in the snapshot is the order of the
        // grants of a name.
        let granted_to_others = |events: &[Event]| -> Vec<_> {
            let granted = |lock: &&EntryRef<'_>| events.contains(&Event::Granted(lock.id));
            state.held.iter().filter(granted).copied().collect()
        };
        same(
            "grants to others by termination",
            &granted_to_others(&events),
            &granted_to_others(&literal_events),
        )
    }

    /// Checks that the snapshot of one name shows the same as the snapshot of all names. This is
    /// not part of the comparison after each command, because it takes as long as that whole
    /// comparison.
    ///
    /// # Errors
    ///
    /// [`Divergence`] if the two snapshots differ.
    pub fn shows_each_name(&self) -> Result<(), Divergence> {
        let all = sorted(self.engine.snapshot_lock_state());
        let names: HashSet<_> = all.held.iter().chain(&all.pending).map(|one| one.name).collect();
        for name in names {
            let (held, pending) = (of_name(&all.held, name), of_name(&all.pending, name));
            let agents: HashSet<_> = pending.iter().map(|one| one.agent).collect();
            for agent in agents {
                let position = QueuePosition {
                    holder: held.first().copied(),
                    holders: held.len(),
                    ahead: pending.iter().position(|one| one.agent == agent),
                };
                let is = self.engine.position(name, |other| other == agent);
                same("position", &is, &position)?;
            }
            same(
                "snapshot of a name",
                &sorted(self.engine.snapshot_of(name)),
                &Sorted { held, pending },
            )?;
        }
        Ok(())
    }

    fn compare(&mut self) -> Result<(), Divergence> {
        let events: Vec<_> = iter::from_fn(|| self.engine.poll_event()).collect();
        same("events", &events, &self.model.take_events())?;

        for &(_, id) in &self.requests {
            let (engine, model) = (self.engine.status(id), self.model.status(id));
            same("status", &(id, engine), &(id, model))?;
        }

        let snapshot = sorted(self.engine.snapshot_lock_state());
        same("snapshot", &snapshot, &sorted(self.model.snapshot_lock_state()))?;
        same("next token", &self.engine.next_token(), &self.model.next_token())?;
        same("emptiness", &self.engine.is_empty(), &self.model.is_empty())?;
        forgets(self.engine.names_known(), &snapshot)?;
        never_happens(&snapshot)
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Divergence {}

fn same<T: fmt::Debug + PartialEq>(what: &str, is: &T, should_be: &T) -> Result<(), Divergence> {
    if is == should_be {
        return Ok(());
    }
    Err(Divergence(format!("{what}\n       is {is:?}\nshould be {should_be:?}")))
}

/// A snapshot with its names sorted, and the entries of each name in their own order.
#[derive(Debug, PartialEq, Eq)]
struct Sorted<'a> {
    held: Vec<EntryRef<'a>>,
    pending: Vec<EntryRef<'a>>,
}

fn sorted<'a>(snapshot: impl Iterator<Item = EntryRef<'a>>) -> Sorted<'a> {
    let (mut held, mut pending): (Vec<_>, Vec<_>) = snapshot.partition(|entry| entry.is_held);
    held.sort_by(|a, b| a.name.cmp(b.name));
    pending.sort_by(|a, b| a.name.cmp(b.name));
    Sorted { held, pending }
}

fn of_name<'a>(all: &[EntryRef<'a>], name: &ResourceName) -> Vec<EntryRef<'a>> {
    all.iter().filter(|one| one.name == name).copied().collect()
}

/// Checks that the engine knows only names that somebody holds or waits for, and at most one more.
fn forgets(names_known: usize, sorted: &Sorted<'_>) -> Result<(), Divergence> {
    let mut names: Vec<_> =
        sorted.held.iter().chain(&sorted.pending).map(|entry| entry.name).collect();
    names.sort();
    names.dedup();
    if (names.len()..=names.len() + 1).contains(&names_known) {
        return Ok(());
    }
    Err(Divergence(format!("knows {names_known} names when in use are {names:?}")))
}

/// Checks what no snapshot may show, in case the model is as wrong as the engine: two holders that
/// exclude each other, or a first waiter that could be granted.
fn never_happens(sorted: &Sorted<'_>) -> Result<(), Divergence> {
    let shared = |lock: &EntryRef<'_>| lock.mode == Mode::Shared;
    let same_name = |a: &EntryRef<'_>, b: &EntryRef<'_>| a.name == b.name;

    for holders in sorted.held.chunk_by(same_name) {
        if holders.len() > 1 && !holders.iter().all(shared) {
            return Err(Divergence(format!("held at the same time: {holders:?}")));
        }
    }
    for waiters in sorted.pending.chunk_by(same_name) {
        let first = &waiters[0];
        let in_the_way =
            |lock: &EntryRef<'_>| same_name(lock, first) && !(shared(lock) && shared(first));
        if !sorted.held.iter().any(in_the_way) {
            return Err(Divergence(format!("waits for nobody: {first:?}")));
        }
    }
    Ok(())
}
