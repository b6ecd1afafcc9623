//! Locks and requests of other machines, in buckets that they share with this one, for lookers.

use std::{
    collections::{HashMap, HashSet, hash_map},
    sync::Arc,
    time::Duration,
};

use navlock_core::{
    ClientId, FencingToken, Inspected, Inspection, LockInfo, ResourceName,
    host::{LockRef, Unheard},
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

/// The bucket, the name and the agent of a request.
type Asked<'a> = (&'a str, &'a ResourceName, ClientId);

/// The ids of the locks that clients of this daemon hold, by agent, bucket, name and token. `None` if an
/// agent has several locks with the same token, because one change of etcd has granted all of them.
type HeldHere<'a> = HashMap<(ClientId, &'a str, &'a ResourceName, FencingToken), Option<LockId>>;

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

    /// Gives each lock and request a serial number that nothing else of its agent has.
    fn new(mut seen: Vec<(String, Inspection)>) -> Self {
        let mut next = HashMap::new();
        for (_, seen) in &mut seen {
            for one in seen.held.iter_mut().chain(&mut seen.pending).chain(&mut seen.owned) {
                one.further.serial |= LockId::MADE_UP;
                // Two of them may have the same number, if they were made in one tick of a clock, or
                // if their machine gives them the same.
                one.further.serial = first_free(id(one), &mut next);
            }
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
        let named = self.named(&ours, &known, |_, _| true);
        let mut events = self.add_named_to(known, &ours, &named);
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
        // The ids are made from all names, so that the locks inside which others wait
        // have the same ids in every picture, whichever names the picture shows.
        let named = self.named(ours, &known, &is_wanted);
        for (bucket, seen) in &mut self.seen {
            for all in [&mut seen.held, &mut seen.pending, &mut seen.owned] {
                all.retain(|one| is_wanted(bucket, &one.lock.name));
            }
        }
        self.add_named_to(known, ours, &named)
    }

    fn add_named_to(
        &self,
        mut events: Vec<LookEvent>,
        ours: &HashSet<ClientId>,
        named: &HashMap<LockRef, LockId>,
    ) -> Vec<LookEvent> {
        events.extend(self.events(ours, named));
        let places = self.places();
        let place = |change: &Change| match change {
            Change::Requested { name: LockName { bucket, name }, entry } => {
                let asked = (&**bucket, name, entry.id.client_id);
                (2, places.get(&asked).copied().unwrap_or(usize::MAX), entry.id.serial)
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
    fn events(&self, ours: &HashSet<ClientId>, named: &HashMap<LockRef, LockId>) -> Vec<LookEvent> {
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
            entry.inside =
                one.further.inside.iter().filter_map(|name| named.get(name).copied()).collect();
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

    /// The ids that this daemon uses for the locks inside which others wait for one of these names. If our
    /// clients hold such a lock, its id is taken from `known`.
    fn named(
        &self,
        ours: &HashSet<ClientId>,
        known: &[LookEvent],
        is_wanted: impl Fn(&str, &ResourceName) -> bool,
    ) -> HashMap<LockRef, LockId> {
        let is_wanted = |one: &&Inspected, bucket: &str| {
            !one.further.inside.is_empty() && is_wanted(bucket, &one.lock.name)
        };
        let nested = self.seen.iter().flat_map(|(bucket, seen)| {
            let is_wanted = &is_wanted;
            seen.pending.iter().filter(move |one| is_wanted(one, bucket))
        });
        let wanted: HashSet<&LockRef> = nested.flat_map(|one| &one.further.inside).collect();
        // FAST: few requests wait inside a lock.
        if wanted.is_empty() {
            return HashMap::new();
        }
        let held_here = held_here(known);
        let id_of = |(bucket, _, one): (_, _, &'_ Inspected)| {
            let Inspected { lock, fencing_token, .. } = one;
            if !is_of(one, ours) {
                return Some(id(one));
            }
            *held_here.get(&(lock.client_id, bucket, &lock.name, (*fencing_token)?))?
        };
        let named = self.all().filter_map(|of| {
            let name = of.2.further.called.as_ref().filter(|name| wanted.contains(name))?;
            Some((name.clone(), id_of(of)?))
        });
        named.collect()
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
        let mut tokens = HashSet::new();
        for (bucket, how, one) in self.all() {
            let Inspected { lock, fencing_token, .. } = one;
            if how == How::Held {
                tokens.insert((bucket, &lock.name, lock.client_id, *fencing_token));
            }
        }
        let mut orders: HashMap<_, Vec<u64>> = HashMap::new();
        for ((bucket, _, one), order) in pending.into_iter().zip(1..) {
            let LockInfo { name, client_id, .. } = &one.lock;
            orders.entry((bucket, name, *client_id)).or_default().push(order);
        }
        for (LockName { bucket, name, .. }, queue) in &mut overview.queues {
            if !complete.contains(&(&**bucket, name)) {
                continue;
            }
            let of = |entry: &Entry| (&**bucket, name, entry.id.client_id);
            queue.held.retain(|entry| {
                let (bucket, name, whose) = of(entry);
                tokens.contains(&(bucket, name, whose, entry.token))
            });
            // The requests of one agent are queued in the order of its calls.
            let mut counts: HashMap<ClientId, Vec<u64>> = HashMap::new();
            for entry in &queue.pending {
                counts.entry(entry.id.client_id).or_default().push(entry.id.serial);
            }
            for serials in counts.values_mut() {
                serials.sort_unstable();
            }
            queue.pending.retain_mut(|entry| {
                let (Some(orders), serials) =
                    (orders.get(&of(entry)), &counts[&entry.id.client_id])
                else {
                    return false;
                };
                let nth = serials.binary_search(&entry.id.serial).ok();
                let order = nth.filter(|_| orders.len() == serials.len()).map(|nth| orders[nth]);
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

    /// The place of each request in the queue of its name.
    fn places(&self) -> HashMap<Asked<'_>, usize> {
        let all = self.seen.iter().flat_map(|(bucket, seen)| {
            let pending = seen.pending.iter().map(|one| &one.lock).enumerate();
            pending.map(|(at, lock)| ((bucket.as_str(), &lock.name, lock.client_id), at))
        });
        // If an agent has several requests, this is the place of the first.
        let mut places = HashMap::new();
        all.for_each(|(asked, at)| {
            places.entry(asked).or_insert(at);
        });
        places
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

/// The locks that are held according to these events.
fn held_here(events: &[LookEvent]) -> HeldHere<'_> {
    let mut held = HeldHere::new();
    for event in events {
        let Change::Granted { name: LockName { bucket, name }, entry } = &event.change else {
            continue;
        };
        let Some(token) = entry.token else { continue };
        let same = held.entry((entry.id.client_id, &**bucket, name, token));
        same.and_modify(|known| *known = None).or_insert(Some(entry.id));
    }
    held
}

/// Takes the first free number of this agent, from the number of this id on.
///
/// `next` leads from each number that is taken to a later one, and so at last to the first number
/// that is free. Afterwards, all numbers on the way lead to the end directly. So an agent that
/// gives all its requests the same number slows nobody down.
fn first_free(first: LockId, next: &mut HashMap<LockId, u64>) -> u64 {
    let at = |serial| LockId { serial, ..first };
    let (mut free, mut gone_through) = (first.serial, Vec::new());
    while let Some(behind) = next.get(&at(free)) {
        gone_through.push(free);
        free = *behind;
    }
    let behind = free.wrapping_add(1) | LockId::MADE_UP;
    next.extend(gone_through.into_iter().chain([free]).map(|taken| (at(taken), behind)));
    free
}

/// The id by which lookers know this lock or request, if it belongs to no client of this daemon.
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
