//! What pages are shown, and what has changed of it since they saw it last.
//!
//! Each part of the state (a name, an agent, a client, the tree, the deadlocks) is written as JSON once when
//! it has changed, and sent to every page as it is then: a page that is slow misses what was there between,
//! and never has anything queued for it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use navlock::{
    ClientId,
    look::{Change, Count, Deadlock, Event, LockId, LockName, Overview, Queue, tree},
};

use super::{
    Holder,
    clock::Clock,
    history::History,
    render::{self, MOST_DEADLOCKS},
};
use crate::{
    json::Object,
    remedy::{Remedy, Surroundings},
    text::bytes_of,
};

/// How many changes are remembered: who has missed more is shown all anew.
const MOST_CHANGES: usize = 16_384;

/// How many names that are not in use any more keep the number that they have on the page, and how long
/// these are together, in bytes.
const SPARE_KEYS: usize = 4_096;
const SPARE_BYTES: usize = 4 << 20;

/// Of so many of those who hold others up it is looked whether they are stopped.
const MOST_WATCHED: usize = 64;

pub(super) struct Store {
    pub(super) clock: Clock,
    /// One more at each [refresh](Store::refresh); 0 is before the first one.
    version: u64,
    broker: Broker,
    keys: Keys,
    names: BTreeMap<u64, Name>,
    agents: HashMap<ClientId, Shown>,
    clients: BTreeMap<u64, String>,
    tree: Section,
    deadlocks: Section,
    /// The first of those who hold others up, as they were shown.
    roots: Vec<ClientId>,
    /// How many locks and requests are not shown.
    left_out: u64,
    /// Which of these have processes that are stopped, and which.
    stopped: HashMap<ClientId, Vec<u32>>,
    /// What ends the deadlocks that are shown, by the request that has closed each.
    remedies: HashMap<LockId, Vec<Remedy>>,
    /// What has changed, by the version by which it was shown.
    changes: VecDeque<(u64, Part)>,
    /// Of this version, and of those before it, some changes may be forgotten.
    forgotten: u64,
    /// What has changed since the last version.
    dirty: HashSet<Dirty>,
    /// Everything has.
    all_dirty: bool,
    /// An agent or a client has come or gone.
    some_went: bool,
    pub(super) history: History,
}

/// How the broker is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Broker {
    /// It was not asked yet.
    #[default]
    Unknown,
    Running,
    None,
    /// The process with this number is stopped.
    Stopped(u32),
    Failed(String),
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Dirty {
    Name(LockName),
    Agent(ClientId),
    Client(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Name(u64),
    Agent(ClientId),
    Client(u64),
}

struct Name {
    json: String,
    /// Whose locks and requests there are.
    agents: HashSet<ClientId>,
    /// Who holds it, all of them, and since which version.
    held: Vec<Holder>,
    held_since: u64,
}

struct Shown {
    json: String,
    count: Count,
}

/// What is shown as a whole.
struct Section {
    changed: u64,
    json: String,
}

/// The numbers of names on the page, which can say them whatever they are.
struct Keys {
    last: u64,
    of: HashMap<LockName, u64>,
    names: HashMap<u64, LockName>,
    /// How long the names are together, in bytes.
    bytes: usize,
    /// When there are more than so many, or they are longer than this, those that are not needed are forgotten.
    limits: (usize, usize),
}

impl Keys {
    fn new() -> Self {
        let (of, names) = (HashMap::new(), HashMap::new());
        Self { last: 0, of, names, bytes: 0, limits: (SPARE_KEYS, SPARE_BYTES) }
    }

    fn are_many(&self) -> bool {
        self.of.len() > self.limits.0 || self.bytes > self.limits.1
    }

    fn forget(&mut self, is_needed: impl Fn(&LockName, u64) -> bool) {
        self.of.retain(|name, key| is_needed(name, *key));
        let left = &self.of;
        self.names.retain(|_, name| left.contains_key(name));
        self.bytes = left.keys().map(bytes_of).sum();
        // FAST: as many again come before it is looked for them again.
        self.limits = (2 * left.len() + SPARE_KEYS, 2 * self.bytes + SPARE_BYTES);
    }

    fn make(&mut self, name: &LockName) -> u64 {
        if let Some(key) = self.of.get(name) {
            return *key;
        }
        self.last += 1;
        self.bytes += bytes_of(name);
        self.of.insert(name.clone(), self.last);
        self.names.insert(self.last, name.clone());
        self.last
    }
}

impl Store {
    pub(super) fn new() -> Self {
        let section = || Section { changed: 0, json: "[]".to_owned() };
        Self {
            clock: Clock::new(),
            version: 0,
            broker: Broker::default(),
            keys: Keys::new(),
            names: BTreeMap::new(),
            agents: HashMap::new(),
            clients: BTreeMap::new(),
            tree: section(),
            deadlocks: section(),
            roots: Vec::new(),
            left_out: 0,
            stopped: HashMap::new(),
            remedies: HashMap::new(),
            changes: VecDeque::new(),
            forgotten: 0,
            dirty: HashSet::new(),
            all_dirty: false,
            some_went: false,
            history: History::new(),
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Looks which of those who hold others up are stopped, and what ends deadlocks. Whether that is new.
    pub(super) fn see_processes<'a>(
        &mut self,
        surroundings: &Surroundings<'_>,
        deadlocks: impl Iterator<Item = &'a Deadlock>,
    ) -> bool {
        let seen = self.roots.iter().map(|id| (*id, surroundings.stopped(*id)));
        let stopped = seen.filter(|(_, pids)| !pids.is_empty()).collect();
        let stopped_before = std::mem::replace(&mut self.stopped, stopped);
        let deadlocks = deadlocks.take(MOST_DEADLOCKS);
        let ends = deadlocks.map(|it| (it.closed_by(), surroundings.remedies_of(it))).collect();
        let ends_before = std::mem::replace(&mut self.remedies, ends);
        stopped_before != self.stopped || ends_before != self.remedies
    }

    /// Whether this is known of the broker.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.broker, Broker::Stopped(_))
    }

    /// The broker is like this from now on. Whether it was otherwise.
    pub(super) fn broker_is(&mut self, broker: Broker) -> bool {
        let was = std::mem::replace(&mut self.broker, broker);
        was != self.broker
    }

    /// Everything may be different.
    pub(super) fn anew(&mut self, overview: &Overview) {
        self.history.anew(overview);
        self.all_dirty = true;
    }

    /// This has happened.
    pub(super) fn happened(&mut self, events: &[Event]) {
        for event in events {
            self.history.event(event);
            let dirty = match &event.change {
                Change::ClientCame { client, .. } => Dirty::Client(*client),
                Change::ClientWent { client } => {
                    self.some_went = true;
                    Dirty::Client(*client)
                }
                Change::AgentCame { agent, .. } | Change::AgentSilent { agent, .. } => {
                    Dirty::Agent(*agent)
                }
                Change::AgentWent { agent } => {
                    self.some_went = true;
                    Dirty::Agent(*agent)
                }
                Change::Unavailable { .. } | Change::Recovered => continue,
                change => match change.name() {
                    Some(name) => Dirty::Name(name.clone()),
                    None => continue,
                },
            };
            self.dirty.insert(dirty);
        }
    }

    /// Takes what there is now for what is shown.
    pub(super) fn refresh<'a>(
        &mut self,
        overview: &Overview,
        deadlocks: impl Iterator<Item = &'a Deadlock>,
        surroundings: &Surroundings<'_>,
    ) {
        self.version += 1;
        let mut dirty = std::mem::take(&mut self.dirty);
        if std::mem::take(&mut self.all_dirty) {
            let (agents, clients) = (overview.agents.keys(), overview.clients.keys());
            dirty.extend(overview.queues.keys().cloned().map(Dirty::Name));
            dirty.extend(agents.chain(self.agents.keys()).copied().map(Dirty::Agent));
            dirty.extend(clients.chain(self.clients.keys()).copied().map(Dirty::Client));
            dirty.extend(self.names.keys().filter_map(|key| self.named(*key)).map(Dirty::Name));
        } else if self.some_went {
            let gone: HashSet<ClientId> = self
                .agents
                .keys()
                .filter(|id| !overview.agents.contains_key(id))
                .copied()
                .collect();
            let theirs = self.names.iter().filter(|(_, name)| !name.agents.is_disjoint(&gone));
            let theirs: Vec<_> = theirs.filter_map(|(key, _)| self.named(*key)).collect();
            dirty.extend(theirs.into_iter().map(Dirty::Name));
            dirty.extend(gone.into_iter().map(Dirty::Agent));
        }
        self.some_went = false;
        let counts = overview.counts();
        for (id, shown) in &self.agents {
            if counts.get(id).copied().unwrap_or_default() != shown.count {
                dirty.insert(Dirty::Agent(*id));
            }
        }
        for part in dirty {
            let part = match part {
                Dirty::Name(name) => self.show_name(&name, overview),
                Dirty::Agent(id) => {
                    self.show_agent(id, overview, &counts);
                    Part::Agent(id)
                }
                Dirty::Client(number) => {
                    match overview.clients.get(&number) {
                        Some(client) => {
                            let json = render::client(number, client, self.clock);
                            self.clients.insert(number, json);
                        }
                        None => drop(self.clients.remove(&number)),
                    }
                    Part::Client(number)
                }
            };
            self.changes.push_back((self.version, part));
        }
        let surplus = self.changes.len().saturating_sub(MOST_CHANGES);
        if let Some((last, _)) = self.changes.drain(..surplus).next_back() {
            self.forgotten = last;
        }
        if self.keys.are_many() {
            self.forget_keys();
        }
        let key = |name: &LockName| self.keys.of.get(name).copied().unwrap_or(0);
        let roots = tree(overview);
        let tops = roots.iter().map(|root| root.rows[0].entry.id.client_id);
        let tops = tops.take(MOST_WATCHED).collect();
        let tree = render::tree(&roots, key, &self.stopped, self.clock);
        let mut known = std::mem::take(&mut self.remedies);
        let found = deadlocks.take(MOST_DEADLOCKS).map(|deadlock| {
            // FAST: what was known is looked at again once a second.
            let known = known.remove(&deadlock.closed_by());
            (deadlock, known.unwrap_or_else(|| surroundings.remedies_of(deadlock)))
        });
        let found: Vec<_> = found.collect();
        let deadlocks = render::deadlocks(&found, key, self.clock);
        self.remedies =
            found.into_iter().map(|(deadlock, ends)| (deadlock.closed_by(), ends)).collect();
        for (section, json) in [(&mut self.tree, tree), (&mut self.deadlocks, deadlocks)] {
            if section.json != json {
                *section = Section { changed: self.version, json };
            }
        }
        (self.roots, self.left_out) = (tops, overview.left_out);
    }

    fn show_name(&mut self, name: &LockName, overview: &Overview) -> Part {
        let key = self.keys.make(name);
        match overview.queues.get(name) {
            Some(queue) => {
                let json = render::queue(key, name, queue, self.clock);
                let Queue { held, pending, owned, .. } = queue;
                let entries = held.iter().chain(pending).chain(owned);
                let agents = entries.map(|entry| entry.id.client_id).collect();
                let held = held.iter().filter_map(|entry| Some((entry.id, entry.token?)));
                let held: Vec<_> = held.collect();
                let before = self.names.get(&key).filter(|before| before.held == held);
                let held_since = before.map_or(self.version, |before| before.held_since);
                self.names.insert(key, Name { json, agents, held, held_since });
            }
            None => drop(self.names.remove(&key)),
        }
        Part::Name(key)
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

    fn forget_keys(&mut self) {
        let Self { keys, names, history, .. } = self;
        keys.forget(|name, key| names.contains_key(&key) || history.knows(name));
    }

    /// The name with this number.
    pub(super) fn named(&self, key: u64) -> Option<LockName> {
        self.keys.names.get(&key).cloned()
    }

    /// Who holds the name with this number, all of them, and which name that is: if whoever has seen this
    /// version has seen these; else `None`.
    pub(super) fn seen_holding(&self, key: u64, version: u64) -> Option<(LockName, Vec<Holder>)> {
        let name = self.names.get(&key)?;
        let has_seen = (name.held_since..=self.version).contains(&version);
        let name = has_seen.then(|| (self.named(key), name.held.clone()));
        name.and_then(|(name, held)| Some((name?, held)))
    }

    /// All of it.
    pub(super) fn state(&self) -> Object {
        let agents = self.agents.values().map(|agent| &agent.json);
        self.head()
            .json("clients", render::array(self.clients.values()))
            .json("agents", render::array(agents))
            .json("names", render::array(self.names.values().map(|name| &name.json)))
            .json("tree", &self.tree.json)
            .json("deadlocks", &self.deadlocks.json)
    }

    /// What has changed since this version; `None` if that is not known any more.
    pub(super) fn since(&self, version: u64) -> Option<Object> {
        if version == 0 || version > self.version || version < self.forgotten {
            return None;
        }
        let start = self.changes.partition_point(|(changed, _)| *changed <= version);
        let parts: HashSet<Part> = self.changes.range(start..).map(|(_, part)| *part).collect();
        let (mut names, mut agents, mut clients) = (Vec::new(), Vec::new(), Vec::new());
        let [mut names_gone, mut agents_gone, mut clients_gone] = [const { Vec::new() }; 3];
        for part in parts {
            match part {
                Part::Name(key) => match self.names.get(&key) {
                    Some(name) => names.push(&name.json),
                    None => names_gone.push(key.to_string()),
                },
                Part::Agent(id) => match self.agents.get(&id) {
                    Some(agent) => agents.push(&agent.json),
                    None => agents_gone.push(format!("\"{id}\"")),
                },
                Part::Client(number) => match self.clients.get(&number) {
                    Some(client) => clients.push(client),
                    None => clients_gone.push(number.to_string()),
                },
            }
        }
        let mut object = self.head();
        for (key, parts) in [("clients", clients), ("agents", agents), ("names", names)] {
            if !parts.is_empty() {
                object = object.json(key, render::array(parts));
            }
        }
        for (key, parts) in
            [("clientsGone", clients_gone), ("agentsGone", agents_gone), ("namesGone", names_gone)]
        {
            if !parts.is_empty() {
                object = object.json(key, render::array(parts));
            }
        }
        for (key, section) in [("tree", &self.tree), ("deadlocks", &self.deadlocks)] {
            if section.changed > version {
                object = object.json(key, &section.json);
            }
        }
        Some(object)
    }

    fn head(&self) -> Object {
        let object =
            Object::default().number("version", self.version).number("now", self.clock.now());
        let (broker, error) = match &self.broker {
            Broker::Unknown => ("unknown", None),
            Broker::Running => ("running", None),
            Broker::None => ("none", None),
            Broker::Stopped(pid) => {
                let error = format!(
                    "process {pid} is stopped, so that nobody is granted anything: 'kill -CONT {pid}' has \
                     it go on. What is shown is how it was."
                );
                ("stopped", Some(error))
            }
            Broker::Failed(error) => ("failed", Some(error.clone())),
        };
        let object = object.string("broker", broker).number("leftOut", self.left_out);
        error.iter().fold(object, |object, error| object.string("error", error))
    }

    /// Who has held the name with this number.
    pub(super) fn history_of(&self, key: u64) -> Option<String> {
        Some(self.history.of(self.keys.names.get(&key)?, self.clock))
    }
}

#[cfg(test)]
mod tests {
    use std::{iter, sync::Arc, time::Instant};

    use navlock::{FencingToken, Mode, look::Entry};
    use serde_json::Value;

    use super::*;
    use crate::remedy::Here;

    /// A store, and what it is shown.
    struct Shown {
        store: Store,
        overview: Overview,
    }

    impl Shown {
        fn new() -> Self {
            let mut shown = Self { store: Store::new(), overview: Overview::default() };
            shown.store.anew(&shown.overview);
            shown.refresh();
            shown
        }

        fn tell(&mut self, changes: impl IntoIterator<Item = Change>) {
            let events: Vec<_> =
                changes.into_iter().map(|change| Event { at: Instant::now(), change }).collect();
            for event in &events {
                self.overview.apply(event);
            }
            self.store.happened(&events);
        }

        fn refresh(&mut self) {
            let here = Here::made_up(|_| None);
            let seen = here.see(&self.overview, None);
            self.store.refresh(&self.overview, iter::empty(), &seen);
        }

        fn since(&self, version: u64) -> Option<Value> {
            Some(serde_json::from_str(&self.store.since(version)?.to_string()).unwrap())
        }

        fn state(&self) -> Value {
            serde_json::from_str(&self.store.state().to_string()).unwrap()
        }
    }

    fn name(name: &str) -> LockName {
        LockName::new("app", name.try_into().unwrap())
    }

    fn entry(client_id: ClientId, serial: u64) -> Entry {
        Entry::new(LockId { client_id, serial }, Mode::Exclusive)
    }

    #[test]
    fn whoever_has_missed_much_is_told_how_it_is_now() {
        let mut shown = Shown::new();
        let agent = ClientId::random();
        for serial in 0..1000 {
            let entry = entry(agent, serial);
            let id = entry.id;
            shown.tell([Change::Granted { name: name("db"), entry }]);
            shown.tell((serial < 999).then(|| Change::Released { name: name("db"), id }));
            shown.refresh();
        }
        let change = shown.since(1).unwrap();
        let names = change["names"].as_array().unwrap();
        assert_eq!(names.len(), 1);
        assert_eq!(names[0]["held"][0]["id"], format!("{agent}/999"));
        assert_eq!(change["version"], 1001);
        assert_eq!(shown.since(1001).unwrap()["names"], Value::Null);
        let last = entry(agent, 999).id;
        shown.tell([Change::Released { name: name("db"), id: last }]);
        shown.refresh();
        assert_eq!(shown.since(1001).unwrap()["namesGone"], serde_json::json!([names[0]["key"]]));
        assert_eq!(shown.state()["names"], serde_json::json!([]));
    }

    #[test]
    fn how_much_is_not_shown_is_told() {
        let mut shown = Shown::new();
        shown.refresh();
        assert_eq!(shown.state()["leftOut"], 0);
        shown.tell([Change::LeftOut { count: 7 }]);
        shown.refresh();
        assert_eq!(
            (&shown.state()["leftOut"], &shown.since(1).unwrap()["leftOut"]),
            (&7.into(), &7.into())
        );
    }

    #[test]
    fn only_so_many_changes_are_remembered_and_then_all_is_told() {
        let mut shown = Shown::new();
        let agent = ClientId::random();
        for round in 0..3 {
            for serial in 0..MOST_CHANGES as u64 / 2 {
                let name = name(&serial.to_string());
                let entry = entry(agent, serial);
                shown.tell([match round % 2 {
                    0 => Change::Granted { name, entry },
                    _ => Change::Released { name, id: entry.id },
                }]);
            }
            shown.refresh();
        }
        assert!(shown.store.changes.len() <= MOST_CHANGES);
        assert_eq!(shown.since(0), None);
        assert_eq!(shown.since(1), None);
        assert!(shown.since(2).is_some() && shown.since(5).is_none());
        assert_eq!(shown.state()["names"].as_array().unwrap().len(), MOST_CHANGES / 2);
    }

    #[test]
    fn what_an_agent_had_goes_with_it() {
        let mut shown = Shown::new();
        let (gone, stays) = (ClientId::random(), ClientId::random());
        let agent = |id, client| Change::AgentCame {
            agent: id,
            details: navlock::look::Agent::new("app".into(), Arc::default(), Some(client)),
        };
        let granted = |name, entry| Change::Granted { name, entry };
        shown.tell([agent(gone, 1), agent(stays, 2)]);
        shown.tell([granted(name("a"), entry(gone, 1)), granted(name("b"), entry(stays, 1))]);
        shown.refresh();
        assert_eq!(shown.state()["names"].as_array().unwrap().len(), 2);
        shown.tell([Change::ClientWent { client: 1 }]);
        shown.refresh();
        let state = shown.state();
        assert_eq!(state["names"].as_array().unwrap().len(), 1);
        assert_eq!(state["agents"].as_array().unwrap().len(), 1);
        assert_eq!(state["agents"][0]["held"], 1);
        let change = shown.since(2).unwrap();
        assert_eq!(change["agentsGone"], serde_json::json!([gone.to_string()]));
        assert_eq!(change["namesGone"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn a_name_is_shown_by_its_beginning() {
        let mut shown = Shown::new();
        let long = name(&"x".repeat(1 << 20));
        shown.tell([Change::Granted { name: long, entry: entry(ClientId::random(), 1) }]);
        shown.refresh();
        let state = shown.store.state().to_string();
        assert!(state.len() < 2_000, "{}", state.len());
        let state: Value = serde_json::from_str(&state).unwrap();
        assert_eq!(state["names"][0]["nameLength"], 1 << 20);
    }

    #[test]
    fn who_has_seen_a_version_has_seen_all_who_hold_by_then_and_nobody_who_holds_since() {
        let mut shown = Shown::new();
        let agents: Vec<_> = (0..700).map(|_| ClientId::random()).collect();
        let granted = |agent: &ClientId, token| {
            let mut entry = Entry::new(LockId { client_id: *agent, serial: 1 }, Mode::Shared);
            entry.token = Some(FencingToken::new(token));
            Change::Granted { name: name("db"), entry }
        };
        shown.tell(agents.iter().map(|agent| granted(agent, 1)));
        shown.refresh();
        let version = shown.store.version();
        let key = shown.state()["names"][0]["key"].as_u64().unwrap();
        // More than there are on the page.
        assert_eq!(shown.store.seen_holding(key, version).unwrap().1.len(), 700);
        let asked = Change::Requested { name: name("db"), entry: entry(agents[0], 2) };
        shown.tell([asked]);
        shown.refresh();
        // That somebody waits changes nothing.
        assert!(shown.store.seen_holding(key, version).is_some());
        // That somebody has it anew does, also where it is the same lock.
        shown.tell([granted(&agents[0], 2)]);
        shown.refresh();
        assert!(shown.store.seen_holding(key, version).is_none());
        let (_, holders) = shown.store.seen_holding(key, shown.store.version()).unwrap();
        assert!(holders.contains(&(entry(agents[0], 1).id, FencingToken::new(2))));
        // Nobody has seen what is to come, nor what has no name.
        assert!(shown.store.seen_holding(key, shown.store.version() + 1).is_none());
        assert!(shown.store.seen_holding(key + 1, shown.store.version()).is_none());
    }

    #[test]
    fn names_that_have_gone_are_forgotten_in_the_end_however_long_they_are() {
        let mut shown = Shown::new();
        let agent = ClientId::random();
        shown.tell([Change::Granted { name: name("stays"), entry: entry(agent, 0) }]);
        for serial in 1..60 {
            let name = name(&format!("{serial}{}", "x".repeat(1 << 19)));
            let entry = entry(agent, serial);
            let id = entry.id;
            shown.tell([Change::Granted { name: name.clone(), entry }]);
            shown.refresh();
            shown.tell([Change::Released { name, id }]);
            shown.refresh();
        }
        let keys = &shown.store.keys;
        let bytes: usize = keys.of.keys().map(bytes_of).sum();
        assert_eq!(bytes, keys.bytes);
        // As much as the history remembers, as much again, and what is spared.
        assert!(bytes < 21 << 20, "{bytes}");
        assert_eq!(keys.of.len(), keys.names.len());
        assert!(keys.of.contains_key(&name("stays")));
    }
}
