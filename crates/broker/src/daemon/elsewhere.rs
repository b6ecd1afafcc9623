//! Locks and requests of other machines, in buckets that they share with this one, for lookers.

use std::{
    collections::{HashMap, HashSet, hash_map},
    sync::Arc,
    time::Duration,
};

use navlock_core::{
    ClientId, Inspected, Inspection, ResourceName,
    host::Unheard,
    look::{Agent, Change, Entry, LockId, LockName, Overview, Silence},
};
use navlock_wire::{LookEvent, Moment};

use super::cycles::Names;
use crate::clock;

/// What the reach has shown of buckets that machines share.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    /// What was seen, by bucket. A bucket may be there several times, each time with another name.
    seen: Vec<(String, Inspection)>,
    /// The names of which everything was seen. Some of these names may have no locks or
    /// requests.
    asked: Names,
}

/// The kind of an [`Inspected`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Held,
    Pending,
    /// A machine owns the name, and was not asked whether the name is held.
    Owned,
}

impl Elsewhere {
    /// Whether nothing has come, gone or changed between these two, apart from what belongs to `ours`:
    /// the agents of this daemon, of whose changes lookers are told as they happen.
    pub(super) fn is_same(&self, other: &Self, ours: &HashSet<ClientId>) -> bool {
        let all = |one: &Self| -> Vec<_> {
            let theirs = one.all().filter(|(.., one)| !is_of(one, ours));
            let told = theirs.map(|(bucket, how, one)| {
                let Inspected { lock, fencing_token, agent, further, .. } = one.clone();
                // The time for which a machine is silent differs each time. So the only question is
                // whether it is silent.
                let is_silent = further.unheard.is_some();
                let said = (further.serial, further.patience, further.inside);
                (bucket.to_owned(), how, lock, fencing_token, agent, is_silent, said)
            });
            told.collect()
        };
        // The number of entries that are left out differs each time as well.
        let is_cut = |one: &Self| one.left_out() > 0;
        is_cut(self) == is_cut(other) && all(self) == all(other)
    }

    fn new(mut seen: Vec<(String, Inspection)>) -> Self {
        for (_, Inspection { held, pending, .. }) in &mut seen {
            // A try that came late can leave a request behind that is a lock already. So can a request that was made
            // again under another lease, until the earlier lease has ended, under which it was granted.
            let held: HashSet<LockId> = held.iter().map(id).collect();
            pending.retain(|one| !held.contains(&id(one)));
        }
        Self { seen, asked: Names::default() }
    }

    /// How many locks and requests are left out.
    fn left_out(&self) -> u64 {
        self.seen.iter().map(|(_, seen)| seen.left_out).sum()
    }

    fn all(&self) -> impl Iterator<Item = (&str, How, &Inspected)> {
        self.seen.iter().flat_map(|(bucket, seen)| {
            let Inspection { held, pending, owned, .. } = seen;
            let all = [(How::Held, held), (How::Pending, pending), (How::Owned, owned)];
            all.into_iter()
                .flat_map(move |(how, all)| all.iter().map(move |one| (bucket.as_str(), how, one)))
        })
    }

    /// Adds the names for which other agents than these wait inside a lock.
    pub(super) fn nested(&self, ours: &HashSet<ClientId>, names: &mut Names) {
        for (bucket, seen) in &self.seen {
            let bucket: Arc<str> = bucket.as_str().into();
            let is_nested = |one: &&Inspected| !one.further.inside.is_empty() && !is_of(one, ours);
            for one in seen.pending.iter().filter(is_nested) {
                names.add(&bucket, &one.lock.name);
            }
        }
    }

    /// Adds the locks and requests of other machines to those that are `known` here, in an order in which
    /// they can be applied: within a name, holders before waiters, and waiters in the order of the queue.
    pub(super) fn add_to(&self, known: Vec<LookEvent>) -> Vec<LookEvent> {
        let agents = known.iter().filter_map(|event| match &event.change {
            Change::AgentCame { agent, .. } => Some(*agent),
            _ => None,
        });
        let ours = agents.collect();
        let mut events = self.in_order(known, &ours);
        let left_out = Some(self.left_out()).filter(|count| *count > 0);
        let told = |count| LookEvent { at: clock::now(), change: Change::LeftOut { count } };
        events.extend(left_out.map(told));
        events
    }

    /// Does the same for these names only, and drops what was seen of other names.
    pub(super) fn add_some_to(
        &mut self,
        known: Vec<LookEvent>,
        ours: &HashSet<ClientId>,
        is_wanted: impl Fn(&str, &ResourceName) -> bool,
    ) -> Vec<LookEvent> {
        for (bucket, seen) in &mut self.seen {
            for all in [&mut seen.held, &mut seen.pending, &mut seen.owned] {
                all.retain(|one| is_wanted(bucket, &one.lock.name));
            }
        }
        self.in_order(known, ours)
    }

    /// These events and those of other machines, in the order in which they can be applied.
    fn in_order(&self, mut events: Vec<LookEvent>, ours: &HashSet<ClientId>) -> Vec<LookEvent> {
        events.extend(self.events(ours));
        let pending = self.seen.iter().flat_map(|(_, seen)| seen.pending.iter().enumerate());
        let places: HashMap<LockId, usize> = pending.map(|(at, one)| (id(one), at)).collect();
        let place = |change: &Change| match change {
            Change::Requested { entry, .. } => {
                (2, places.get(&entry.id).copied().unwrap_or(usize::MAX), entry.id.serial)
            }
            Change::Granted { .. } | Change::Owned { .. } => (1, 0, 0),
            _ => (0, 0, 0),
        };
        events.sort_by_cached_key(|event| {
            let (kind, place, serial) = place(&event.change);
            // Clients and agents keep the order in which they were collected, with clients before
            // their agents.
            (kind, place, if kind == 0 { 0 } else { event.at }, serial)
        });
        events
    }

    /// The locks and requests of other agents than these, as events.
    fn events(&self, ours: &HashSet<ClientId>) -> Vec<LookEvent> {
        let (mut events, mut met) = (Vec::new(), HashMap::new());
        let unheard = self.unheard();
        for (bucket, how, one) in self.all().filter(|(.., one)| !is_of(one, ours)) {
            let Inspected { lock, agent, age, fencing_token, .. } = one;
            let said = agent.as_deref().map_or("", |agent| &agent.why);
            if let hash_map::Entry::Vacant(first) = met.entry(lock.client_id) {
                first.insert(said);
                let details = Agent::new(bucket.into(), agent.clone().unwrap_or_default(), None);
                let change = Change::AgentCame { agent: lock.client_id, details };
                events.push(LookEvent { at: clock::now(), change });
                let unheard = unheard.get(&lock.client_id).copied().flatten();
                events.extend(unheard.map(|unheard| silent(lock.client_id, unheard)));
            }
            let mut entry = Entry::new(id(one), lock.mode);
            (entry.token, entry.patience) = (*fencing_token, one.further.patience);
            entry.inside = one.further.inside.iter().map(|outer| outer.id).collect();
            entry.why = (met[&lock.client_id] != said).then(|| said.into());
            let at = ago(age.unwrap_or_default());
            let name = LockName::new(bucket, lock.name.clone());
            let change = match how {
                How::Held => Change::Granted { name, entry },
                How::Pending => Change::Requested { name, entry },
                How::Owned => Change::Owned { name, entry, held: false },
            };
            events.push(LookEvent { at, change });
        }
        events
    }

    /// Removes from the overview the locks and requests that etcd does not have. Where the overview and
    /// etcd differ, this daemon has not heard of a grant or a loss yet. Also sets the order of the
    /// requests across all machines. A name of which not everything was seen is left as it is.
    pub(super) fn settle(&self, overview: &mut Overview) {
        let complete = self.seen.iter().filter(|(_, seen)| seen.left_out == 0);
        let complete = complete.flat_map(|(bucket, seen)| {
            let all = seen.held.iter().chain(&seen.pending);
            all.map(|one| (bucket.as_str(), &one.lock.name))
        });
        let asked = self.asked.iter().map(|(bucket, name)| (&**bucket, name));
        let complete: HashSet<(&str, &ResourceName)> = complete.chain(asked).collect();
        let mut pending: Vec<_> = self.all().filter(|(_, how, _)| *how == How::Pending).collect();
        pending.sort_by_key(|(.., one)| one.further.order);
        let pending = pending.into_iter().zip(1..);
        let orders: HashMap<LockId, u64> = pending.map(|((.., one), at)| (id(one), at)).collect();
        let held = self.all().filter(|(_, how, _)| *how == How::Held);
        let held: HashSet<_> = held.map(|(.., one)| (id(one), one.fencing_token)).collect();
        for (LockName { bucket, name, .. }, queue) in &mut overview.queues {
            if !complete.contains(&(&**bucket, name)) {
                continue;
            }
            queue.held.retain(|entry| held.contains(&(entry.id, entry.token)));
            queue.pending.retain_mut(|entry| {
                let order = orders.get(&entry.id).copied();
                entry.order = order.unwrap_or_default();
                order.is_some()
            });
            // The requests are put into the order in which etcd serves them.
            queue.pending.sort_by_key(|entry| entry.order);
        }
        overview.queues.retain(|_, queue| !queue.is_empty());
    }

    /// The agents that have not been heard of. An agent with several leases has been heard of if any of them
    /// was renewed.
    fn unheard(&self) -> HashMap<ClientId, Option<Unheard>> {
        let mut unheard = HashMap::new();
        for (.., one) in self.all() {
            let found = one.further.unheard;
            let known = unheard.entry(one.lock.client_id).or_insert(found);
            *known = known.zip(found).map(
                |(one, other)| {
                    if one.silent < other.silent { one } else { other }
                },
            );
        }
        unheard
    }
}

/// The event that tells that an agent's machine has not been heard of.
fn silent(agent: ClientId, Unheard { silent, left }: Unheard) -> LookEvent {
    let silence = Silence::from(silent.saturating_add(left));
    LookEvent { at: ago(silent), change: Change::AgentSilent { agent, silence } }
}

/// The moment that lies this long before now.
fn ago(time: Duration) -> Moment {
    clock::now().saturating_sub(u64::try_from(time.as_nanos()).unwrap_or(0))
}

/// The id by which all machines know this lock or request.
fn id(one: &Inspected) -> LockId {
    LockId { client_id: one.lock.client_id, serial: one.further.serial }
}

/// Whether this lock or request belongs to one of these agents.
fn is_of(one: &Inspected, agents: &HashSet<ClientId>) -> bool {
    agents.contains(&one.lock.client_id)
}

mod listing;
#[cfg(test)]
mod tests;
