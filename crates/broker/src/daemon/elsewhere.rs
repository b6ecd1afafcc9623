//! What there is in buckets that other machines share, for those who look.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use navlock_core::{
    ClientId, FencingToken, Inspected, ResourceName,
    host::{self, Sighted, Sighting, Unheard},
};
use navlock_wire::{LookChange, LookEntry, LookEvent, Moment, OfName};
use tokio::time::Instant;

use super::{
    house::{House, lock},
    lookers::Filter,
};
use crate::{clock, forms::to_wire};

/// The serial numbers of what other machines have begin here: they do not say theirs.
const MADE_UP: u64 = 1 << 63;

/// What there is in buckets that other machines share, by their names.
#[derive(Default)]
pub(super) struct Elsewhere(pub(super) Vec<(String, Sighting)>);

/// Whose request for which name.
type Asked<'a> = (&'a str, &'a ResourceName, ClientId);

impl Elsewhere {
    /// Whether nothing has come or gone or been said anew since then, but of these agents, of which all is
    /// told as it happens.
    pub(super) fn is_same(&self, other: &Self, ours: &HashSet<ClientId>) -> bool {
        let all = |one: &Self| -> Vec<_> {
            let of_bucket = |(bucket, seen): &(String, Sighting)| {
                let both = [(true, &seen.held), (false, &seen.pending)];
                let all = both.into_iter().flat_map(|(held, all)| {
                    let is_theirs = |one: &&Sighted| !ours.contains(&one.inspected.lock.client_id);
                    all.iter().filter(is_theirs).map(
                        move |Sighted { inspected, unheard, .. }| {
                            let Inspected { lock, fencing_token, agent, .. } = inspected.clone();
                            // For how long is another time each time.
                            (held, lock, fencing_token, agent, unheard.is_some())
                        },
                    )
                });
                (bucket.clone(), all.collect::<Vec<_>>())
            };
            one.0.iter().map(of_bucket).collect()
        };
        all(self) == all(other)
    }

    /// Leaves of it what is of these names in their buckets.
    pub(super) fn retain(&mut self, is_wanted: impl Fn(&str, &ResourceName) -> bool) {
        for (bucket, inspection) in &mut self.0 {
            for all in [&mut inspection.held, &mut inspection.pending] {
                all.retain(|one| is_wanted(bucket, &one.inspected.lock.name));
            }
        }
    }

    /// What there is here, and there what is not of these agents, in the order in which it can be applied:
    /// within a name, who holds before who waits, and these as they will be served.
    pub(super) fn add_to(
        &self,
        mut events: Vec<LookEvent>,
        ours: &HashSet<ClientId>,
    ) -> Vec<LookEvent> {
        events.extend(self.events(ours));
        let places = self.places();
        let place = |change: &LookChange| match change {
            LookChange::Requested(of, entry) => {
                let asked = (&*of.bucket, &of.name, ClientId::from_bytes(entry.id.0));
                (2, places.get(&asked).copied().unwrap_or(usize::MAX), entry.id.1)
            }
            LookChange::Granted(..) | LookChange::Owned(..) => (1, 0, 0),
            _ => (0, 0, 0),
        };
        events.sort_by_cached_key(|event| {
            let (kind, place, serial) = place(&event.change);
            // Who came is told as it was collected: clients before their agents.
            (kind, place, if kind == 0 { 0 } else { event.at }, serial)
        });
        events
    }

    /// What is not of these agents.
    fn events(&self, ours: &HashSet<ClientId>) -> Vec<LookEvent> {
        let (mut events, mut met) = (Vec::new(), HashSet::new());
        let unheard = self.unheard();
        for (bucket, seen) in &self.0 {
            let mut counts = HashMap::<_, u64>::new();
            let both = [(true, &seen.held), (false, &seen.pending)];
            let all =
                both.into_iter().flat_map(|(held, all)| all.iter().map(move |one| (held, one)));
            let is_theirs =
                |(_, one): &(_, &Sighted)| !ours.contains(&one.inspected.lock.client_id);
            for (held, Sighted { inspected, .. }) in all.filter(is_theirs) {
                let Inspected { lock, agent, age, fencing_token, .. } = inspected;
                let client_id = lock.client_id.to_bytes();
                if met.insert(lock.client_id) {
                    let info = agent.as_deref().map(to_wire).unwrap_or_default();
                    let meta = agent.as_deref().map(|agent| agent.meta.clone());
                    events.push(LookEvent {
                        at: clock::now(),
                        change: LookChange::AgentCame {
                            agent: client_id,
                            bucket: bucket.as_str().into(),
                            info,
                            meta: meta.unwrap_or_default(),
                            client: None,
                        },
                    });
                    let unheard = unheard.get(&lock.client_id).copied().flatten();
                    events.extend(unheard.map(|unheard| silent(client_id, unheard)));
                }
                let count = counts.entry((lock.client_id, &lock.name)).or_default();
                *count += 1;
                let entry = LookEntry {
                    id: (client_id, made_up(&lock.name, *count)),
                    mode: lock.mode,
                    token: fencing_token.map(FencingToken::get),
                    inside: Vec::new(),
                    may_give_up: false,
                    taken: 0,
                };
                let at = ago(age.unwrap_or_default());
                let of = OfName { bucket: bucket.as_str().into(), name: lock.name.clone() };
                let change = if held {
                    LookChange::Granted(of, entry)
                } else {
                    LookChange::Requested(of, entry)
                };
                events.push(LookEvent { at, change });
            }
        }
        events
    }

    /// Which agents have not been heard of. Who has something under several leases was, if any of these was.
    fn unheard(&self) -> HashMap<ClientId, Option<Unheard>> {
        let all = self.0.iter().flat_map(|(_, seen)| seen.held.iter().chain(&seen.pending));
        let mut unheard = HashMap::new();
        for Sighted { inspected, unheard: found, .. } in all {
            let known = unheard.entry(inspected.lock.client_id).or_insert(*found);
            *known = known.zip(*found).map(
                |(one, other)| {
                    if one.silent < other.silent { one } else { other }
                },
            );
        }
        unheard
    }

    /// Where each request stands among those of its name.
    fn places(&self) -> HashMap<Asked<'_>, usize> {
        let all = self.0.iter().flat_map(|(bucket, seen)| {
            let pending = seen.pending.iter().map(|one| &one.inspected.lock).enumerate();
            pending.map(|(at, lock)| ((bucket.as_str(), &lock.name, lock.client_id), at))
        });
        // Of several that one agent has, the first.
        let mut places = HashMap::new();
        all.for_each(|(asked, at)| {
            places.entry(asked).or_insert(at);
        });
        places
    }
}

/// That an agent's machine has not been heard of.
fn silent(agent: navlock_wire::ClientId, Unheard { silent, left }: Unheard) -> LookEvent {
    let ends = clock::now().saturating_add(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
    LookEvent { at: ago(silent), change: LookChange::AgentSilent { agent, ends } }
}

/// So long ago.
fn ago(time: Duration) -> Moment {
    clock::now().saturating_sub(u64::try_from(time.as_nanos()).unwrap_or(0))
}

/// The same for the same request for as long as it is there, mostly.
fn made_up(name: &ResourceName, count: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    // Half for the name, and half for how many there are of it.
    MADE_UP | (hasher.finish() >> 33 << 32) | (count & u64::from(u32::MAX))
}

impl House {
    /// The buckets of all agents that are to be seen, and the one that is asked for.
    pub(super) fn buckets(&self, filter: &Filter) -> Vec<String> {
        let mut buckets: Vec<String> = filter.bucket.iter().cloned().collect();
        for client in self.everybody() {
            let client = lock(&client);
            let theirs = client.agents().map(|(of, _)| of.bucket.as_ref().to_owned());
            buckets.extend(theirs.filter(|bucket| filter.has_bucket(bucket)));
        }
        buckets.sort_unstable();
        buckets.dedup();
        buckets
    }

    /// What there is on other machines.
    pub(super) async fn look_elsewhere(&self, filter: &Filter) -> Elsewhere {
        if !self.user_agent().is_leased() {
            return Elsewhere::default();
        }
        self.look_elsewhere_in(self.buckets(filter), filter.name.as_ref()).await
    }

    /// The same in these buckets, of one name or of all.
    pub(super) async fn look_elsewhere_in(
        &self,
        buckets: Vec<String>,
        name: Option<&ResourceName>,
    ) -> Elsewhere {
        let mut found = Vec::new();
        for bucket in buckets {
            let locks = self.user_agent().lock_manager(&bucket);
            // What cannot be asked now is asked again.
            if let Ok(mut seen) = host::look(&locks).await {
                if let Some(name) = name {
                    for all in [&mut seen.held, &mut seen.pending] {
                        all.retain(|one| one.inspected.lock.name == *name);
                    }
                }
                found.push((bucket, seen));
            }
        }
        Elsewhere(found)
    }

    /// All that there is, in the [order](Elsewhere::add_to) in which it can be applied.
    pub(super) fn look(&self, filter: &Filter, elsewhere: &Elsewhere) -> Vec<LookEvent> {
        let mut events = Vec::new();
        for client in self.everybody() {
            lock(&client).look(filter, &mut events);
        }
        let ours: HashSet<ClientId> = events
            .iter()
            .filter_map(|event| match &event.change {
                LookChange::AgentCame { agent, .. } => Some(ClientId::from_bytes(*agent)),
                _ => None,
            })
            .collect();
        elsewhere.add_to(events, &ours)
    }

    /// Looks what owners have done without a word, if nobody has lately, and tells it.
    pub(super) fn look_anew_now_and_then(&self) {
        if self.lookers().is_time_to_look(Instant::now()) {
            self.look_anew();
        }
    }

    /// Looks what owners have done without a word, and tells it.
    pub(super) fn look_anew(&self) {
        let seen = self.delegations().map(|delegations| delegations.look_anew());
        for LookEvent { at, change } in seen.unwrap_or_default() {
            self.lookers().tell_at(|| at, || change);
        }
    }
}
