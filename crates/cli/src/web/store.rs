//! The state that pages show, and what has changed in it since a page last saw it.
//!
//! Each part of the state (a name, an agent, a client, the tree, the deadlocks) is written as JSON
//! once when it has changed. Every page is sent the parts as they are when the page is ready for
//! them. So a slow page misses the states in between, and nothing is queued for it.

mod answers;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use navlock::{
    ClientId,
    look::{Change, Count, Deadlock, Event, LockId, LockName, Overview, Queue, tree},
};

use super::{
    clock::Clock,
    name_numbers::NameNumbers,
    render::{self, MOST_DEADLOCKS},
};
use crate::{
    past::Past,
    remedy::{Remedy, Surroundings},
    steal::Holder,
};

/// How many changes are remembered. A page that has missed more is sent everything anew.
const MOST_CHANGES: usize = 16_384;

/// How many agents that hold others up are checked for stopped processes.
const MOST_WATCHED: usize = 64;

#[derive(Default)]
pub(super) struct Store {
    pub(super) clock: Clock,
    /// The version, which grows by one at each [refresh](Store::refresh). Before the first one, it
    /// is 0.
    version: u64,
    broker: Broker,
    keys: NameNumbers,
    names: BTreeMap<u64, Name>,
    agents: HashMap<ClientId, Shown>,
    clients: BTreeMap<u64, String>,
    tree: Section,
    deadlocks: Section,
    /// The first agents that hold others up, as the pages were last shown them.
    roots: Vec<ClientId>,
    /// How many locks and requests are not shown.
    left_out: u64,
    /// Those of these agents that have stopped processes, with these processes.
    stopped: HashMap<ClientId, Vec<u32>>,
    /// The remedies for the deadlocks that are shown, by the request that has closed each deadlock.
    remedies: HashMap<LockId, Vec<Remedy>>,
    /// The parts that have changed, by the version in which they were shown.
    changes: VecDeque<(u64, Part)>,
    /// Changes of this version and of earlier versions may be forgotten.
    forgotten: u64,
    /// What has changed since the last version.
    dirty: HashSet<Part>,
    /// Whether everything has changed since the last version.
    all_dirty: bool,
    /// Whether an agent or a client has come or gone.
    some_went: bool,
    past: Past,
}

/// The state of the broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Broker {
    /// The broker was not asked yet.
    #[default]
    Unknown,
    Running,
    None,
    /// The broker's process, which has this number, is stopped.
    Stopped(u32),
    Failed(String),
}

/// A part of the state. A name is known by its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Name(u64),
    Agent(ClientId),
    Client(u64),
}

struct Name {
    json: String,
    /// The agents that have locks and requests of the name.
    agents: HashSet<ClientId>,
    /// All holders of the name, and since which version.
    held: Vec<Holder>,
    held_since: u64,
}

struct Shown {
    json: String,
    count: Count,
}

/// A part that is shown as a whole.
struct Section {
    changed: u64,
    json: String,
}

impl Default for Section {
    fn default() -> Self {
        Self { changed: 0, json: "[]".to_owned() }
    }
}

impl Section {
    /// Shows this from `version` on, if it is not what is shown already.
    fn show(&mut self, json: String, version: u64) {
        if self.json != json {
            *self = Self { changed: version, json };
        }
    }
}

impl Store {
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Checks which of the agents that hold others up are stopped, and what would end deadlocks.
    /// Returns whether anything has changed. To be called once in a while.
    pub(super) fn see_processes<'a>(
        &mut self,
        surroundings: &Surroundings<'_>,
        deadlocks: impl Iterator<Item = &'a Deadlock>,
    ) -> bool {
        self.tidy();
        let seen = self.roots.iter().map(|id| (*id, surroundings.stopped(*id)));
        let stopped = seen.filter(|(_, pids)| !pids.is_empty()).collect();
        let stopped_before = std::mem::replace(&mut self.stopped, stopped);
        let deadlocks = deadlocks.take(MOST_DEADLOCKS);
        let ends = deadlocks.map(|it| (it.gives_way(), surroundings.remedies_of(it))).collect();
        let ends_before = std::mem::replace(&mut self.remedies, ends);
        stopped_before != self.stopped || ends_before != self.remedies
    }

    /// Whether the broker is known to be stopped.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.broker, Broker::Stopped(_))
    }

    /// Sets the state of the broker. Returns whether the state was another one before.
    pub(super) fn broker_is(&mut self, broker: Broker) -> bool {
        let was = std::mem::replace(&mut self.broker, broker);
        was != self.broker
    }

    /// To be called when everything may have changed.
    pub(super) fn anew(&mut self, overview: &Overview) {
        self.past.anew(overview.clone());
        self.all_dirty = true;
    }

    /// Takes in events.
    pub(super) fn happened(&mut self, events: &[Event]) {
        for event in events {
            self.past.event(event);
            let dirty = match &event.change {
                Change::ClientCame { client, .. } => Part::Client(*client),
                Change::ClientWent { client } => {
                    self.some_went = true;
                    Part::Client(*client)
                }
                Change::AgentCame { agent, .. } | Change::AgentSilent { agent, .. } => {
                    Part::Agent(*agent)
                }
                Change::AgentWent { agent } => {
                    self.some_went = true;
                    Part::Agent(*agent)
                }
                Change::Unavailable { .. } | Change::Recovered => continue,
                change => match change.name() {
                    Some(name) => Part::Name(self.keys.make(name)),
                    None => continue,
                },
            };
            self.dirty.insert(dirty);
        }
    }

    /// Makes the present state the one that is shown.
    pub(super) fn refresh<'a>(
        &mut self,
        overview: &Overview,
        deadlocks: impl Iterator<Item = &'a Deadlock>,
        surroundings: &Surroundings<'_>,
    ) {
        self.version += 1;
        let counts = overview.counts();
        for part in self.take_dirty(overview, &counts) {
            self.show_part(part, overview, &counts);
            self.changes.push_back((self.version, part));
        }
        let surplus = self.changes.len().saturating_sub(MOST_CHANGES);
        if let Some((last, _)) = self.changes.drain(..surplus).next_back() {
            self.forgotten = last;
        }
        self.show_tree(overview);
        self.show_deadlocks(deadlocks, surroundings);
        self.left_out = overview.left_out;
    }

    /// The parts that may have changed since the last version.
    fn take_dirty(
        &mut self,
        overview: &Overview,
        counts: &HashMap<ClientId, Count>,
    ) -> HashSet<Part> {
        let mut dirty = std::mem::take(&mut self.dirty);
        if std::mem::take(&mut self.all_dirty) {
            let (agents, clients) = (overview.agents.keys(), overview.clients.keys());
            dirty.extend(overview.queues.keys().map(|name| Part::Name(self.keys.make(name))));
            dirty.extend(agents.chain(self.agents.keys()).copied().map(Part::Agent));
            dirty.extend(clients.chain(self.clients.keys()).copied().map(Part::Client));
            dirty.extend(self.names.keys().copied().map(Part::Name));
        } else if self.some_went {
            let shown = self.agents.keys().copied();
            let gone: HashSet<_> = shown.filter(|id| !overview.agents.contains_key(id)).collect();
            let theirs = self.names.iter().filter(|(_, name)| !name.agents.is_disjoint(&gone));
            dirty.extend(theirs.map(|(key, _)| Part::Name(*key)));
            dirty.extend(gone.into_iter().map(Part::Agent));
        }
        self.some_went = false;
        let count = |id| counts.get(id).copied().unwrap_or_default();
        let counted_anew = self.agents.iter().filter(|(id, shown)| count(id) != shown.count);
        dirty.extend(counted_anew.map(|(id, _)| Part::Agent(*id)));
        dirty
    }

    /// Writes a part anew, as it is now.
    fn show_part(&mut self, part: Part, overview: &Overview, counts: &HashMap<ClientId, Count>) {
        match part {
            Part::Name(key) => self.show_name(key, overview),
            Part::Agent(id) => self.show_agent(id, overview, counts),
            Part::Client(number) => match overview.clients.get(&number) {
                Some(client) => {
                    let json = render::client(number, client, self.clock);
                    self.clients.insert(number, json);
                }
                None => drop(self.clients.remove(&number)),
            },
        }
    }

    fn show_tree(&mut self, overview: &Overview) {
        let roots = tree(overview);
        let json = render::tree(&roots, |name| self.keys.get(name), &self.stopped, self.clock);
        self.tree.show(json, self.version);
        let tops = roots.iter().map(|root| root.rows[0].entry.id.client_id);
        self.roots = tops.take(MOST_WATCHED).collect();
    }

    fn show_deadlocks<'a>(
        &mut self,
        deadlocks: impl Iterator<Item = &'a Deadlock>,
        surroundings: &Surroundings<'_>,
    ) {
        let mut known = std::mem::take(&mut self.remedies);
        let found = deadlocks.take(MOST_DEADLOCKS).map(|deadlock| {
            // FAST: known remedies are kept. They are checked again once a second.
            let known = known.remove(&deadlock.gives_way());
            (deadlock, known.unwrap_or_else(|| surroundings.remedies_of(deadlock)))
        });
        let found: Vec<_> = found.collect();
        let json = render::deadlocks(&found, |name| self.keys.get(name), self.clock);
        self.deadlocks.show(json, self.version);
        self.remedies =
            found.into_iter().map(|(deadlock, ends)| (deadlock.gives_way(), ends)).collect();
    }

    fn show_name(&mut self, key: u64, overview: &Overview) {
        let named = self.keys.names.get(&key).and_then(|name| overview.queues.get_key_value(name));
        let Some((name, queue)) = named else {
            self.names.remove(&key);
            return;
        };
        let json = render::queue(key, name, queue, self.clock);
        let Queue { held, pending, owned, .. } = queue;
        let entries = held.iter().chain(pending).chain(owned);
        let agents = entries.map(|entry| entry.id.client_id).collect();
        let held: Vec<_> = held.iter().filter_map(|entry| Some((entry.id, entry.token?))).collect();
        let before = self.names.get(&key).filter(|before| before.held == held);
        let held_since = before.map_or(self.version, |before| before.held_since);
        self.names.insert(key, Name { json, agents, held, held_since });
    }

    fn show_agent(&mut self, id: ClientId, overview: &Overview, counts: &HashMap<ClientId, Count>) {
        match overview.agents.get(&id) {
            Some(agent) => {
                let count = counts.get(&id).copied().unwrap_or_default();
                let json = render::agent(id, agent, count, self.clock);
                self.agents.insert(id, Shown { json, count });
            }
            None => drop(self.agents.remove(&id)),
        }
    }

    /// Forgets what is remembered of names that have gone, as far as nobody needs it.
    fn tidy(&mut self) {
        let Self { keys, names, past, dirty, .. } = self;
        past.tidy();
        keys.forget(|name, key| {
            names.contains_key(&key)
                || past.names.contains_key(name)
                || dirty.contains(&Part::Name(key))
        });
    }

    /// The name with this number.
    pub(super) fn named(&self, key: u64) -> Option<LockName> {
        self.keys.names.get(&key).cloned()
    }

    /// The name with this number, and all its holders, if a page that has seen this version has
    /// seen these holders. Otherwise `None`.
    pub(super) fn seen_holding(&self, key: u64, version: u64) -> Option<(LockName, Vec<Holder>)> {
        let name = self.names.get(&key)?;
        let has_seen = (name.held_since..=self.version).contains(&version);
        let name = has_seen.then(|| (self.named(key), name.held.clone()));
        name.and_then(|(name, held)| Some((name?, held)))
    }

    /// The past holders of the name with this number.
    pub(super) fn history_of(&self, key: u64) -> Option<String> {
        Some(render::spans(&self.past, self.keys.names.get(&key)?, self.clock))
    }
}

#[cfg(test)]
mod tests;
