//! The state that pages show, and what has changed in it since a page last saw it.
//!
//! Each part of the state (a name, an agent, a client, the tree, the deadlocks) is written as JSON, and is
//! told to pages if it is another text than before. Every page is sent the parts as they are when the page
//! is ready for them. So a slow page misses the states in between, and nothing is queued for it.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    mem,
};

use navlock::{
    ClientId,
    look::{LockName, tree},
};
use navlock_platform::shell::line_to_continue;

use super::{
    clock::Clock,
    render::{self, MOST_DEADLOCKS},
};
use crate::{
    json::{IfKnown, Object},
    picture::{Broker, Picture},
    remedy::Here,
    steal::{Holder, holders},
};

/// How many parts that have gone are remembered. A page that has missed more is sent everything anew.
const MOST_GONE: usize = 16_384;

#[derive(Default)]
pub(super) struct Store {
    pub(super) clock: Clock,
    /// What is known by now. Pages are shown what was known at the last [refresh](Store::refresh).
    pub(super) picture: Picture,
    /// The version of what is shown. It grows by one when that changes, and is 0 before anything is shown.
    version: u64,
    /// The state of the broker, and how many locks and requests are not shown.
    head: (Broker, u64),
    /// The numbers by which pages refer to names, because names can be any text.
    keys: HashMap<LockName, u64>,
    last_key: u64,
    parts: BTreeMap<Part, Shown>,
    tree: Shown,
    deadlocks: Shown,
    /// The parts that have gone, by the version in which they were not shown any more.
    gone: VecDeque<(u64, Part)>,
    /// Parts that have gone with this version or an earlier one may be forgotten.
    forgotten: u64,
    /// All holders of each name that is shown, and since which version.
    held: HashMap<u64, (u64, Vec<Holder>)>,
}

/// A part of the state. A name is known by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Client(u64),
    Agent(ClientId),
    Name(u64),
}

/// What is shown of a part, and since which version.
struct Shown {
    changed: u64,
    json: String,
}

impl Default for Shown {
    fn default() -> Self {
        Self { changed: 0, json: "[]".to_owned() }
    }
}

impl Part {
    const LISTS: [&'static str; 3] = ["clients", "agents", "names"];

    /// The list that the part is in.
    fn list(self) -> &'static str {
        match self {
            Self::Client(_) => "clients",
            Self::Agent(_) => "agents",
            Self::Name(_) => "names",
        }
    }

    /// What the part is known by, as JSON.
    fn id(self) -> String {
        match self {
            Self::Client(number) | Self::Name(number) => number.to_string(),
            Self::Agent(id) => format!("\"{id}\""),
        }
    }
}

impl Store {
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Whether something has changed that no event tells: a process was stopped, or goes on.
    pub(super) fn is_behind(&self, here: &Here) -> bool {
        let (tree, deadlocks) = self.waits(here);
        self.picture.broker != self.head.0
            || tree != self.tree.json
            || deadlocks != self.deadlocks.json
    }

    /// Who waits for whom, and the deadlocks, as JSON.
    fn waits(&self, here: &Here) -> (String, String) {
        let overview = self.picture.overview();
        let seen = here.see(overview, self.picture.namespace);
        let key = |name: &LockName| self.keys.get(name).copied().unwrap_or(0);
        let tree = render::tree(&tree(overview), key, &seen, self.clock);
        let deadlocks = self.picture.deadlocks.iter().take(MOST_DEADLOCKS);
        (tree, render::deadlocks(deadlocks, key, &seen, self.clock))
    }

    /// Makes what is known the state that is shown.
    pub(super) fn refresh(&mut self, here: &Here) {
        let version = self.version + 1;
        let overview = self.picture.overview();
        let state = (self.picture.broker.clone(), overview.left_out);
        let mut is_new = version == 1 || state != self.head;
        let mut parts = BTreeMap::new();
        let mut held_before = mem::take(&mut self.held);
        for (name, queue) in &overview.queues {
            let key = *self.keys.entry(name.clone()).or_insert_with(|| {
                self.last_key += 1;
                self.last_key
            });
            parts.insert(Part::Name(key), render::queue(key, name, queue, self.clock));
            let held = holders(queue);
            let before = held_before.remove(&key).filter(|(_, before)| *before == held);
            // Not all holders are in the JSON.
            is_new |= before.is_none();
            self.held.insert(key, before.unwrap_or((version, held)));
        }
        let counts = overview.counts();
        for (id, agent) in &overview.agents {
            let count = counts.get(id).copied().unwrap_or_default();
            parts.insert(Part::Agent(*id), render::agent(*id, agent, count, self.clock));
        }
        for (number, client) in &overview.clients {
            parts.insert(Part::Client(*number), render::client(*number, client, self.clock));
        }
        let (tree, deadlocks) = self.waits(here);

        self.head = state;
        let mut show = |json: String, before: Shown| {
            let is_same = before.json == json;
            is_new |= !is_same;
            if is_same { before } else { Shown { changed: version, json } }
        };
        self.tree = show(tree, mem::take(&mut self.tree));
        self.deadlocks = show(deadlocks, mem::take(&mut self.deadlocks));
        let mut before = mem::take(&mut self.parts);
        let parts = parts.into_iter().map(|(part, json)| {
            let before = before.remove(&part).unwrap_or_default();
            (part, show(json, before))
        });
        self.parts = parts.collect();
        is_new |= !before.is_empty();
        self.gone.extend(before.into_keys().map(|part| (version, part)));
        let surplus = self.gone.len().saturating_sub(MOST_GONE);
        if let Some((last, _)) = self.gone.drain(..surplus).next_back() {
            self.forgotten = last;
        }
        if is_new {
            self.version = version;
        }
    }

    /// The whole state.
    pub(super) fn state(&self) -> Object {
        self.told(0)
    }

    /// What has changed since this version; `None` if this is not known any more.
    pub(super) fn since(&self, version: u64) -> Option<Object> {
        if version == 0 || version > self.version || version < self.forgotten {
            return None;
        }
        let start = self.gone.partition_point(|(gone, _)| *gone <= version);
        let gone = self.gone.range(start..).filter(|(_, part)| !self.parts.contains_key(part));
        let gone = |list| gone.clone().filter(move |(_, part)| part.list() == list);
        let lists = Part::LISTS.into_iter().fold(self.told(version), |object, list| {
            let gone = gone(list).map(|(_, part)| part.id());
            object.json(&format!("{list}Gone"), render::array(gone))
        });
        Some(lists)
    }

    /// The parts that have changed after this version; all of them for version 0.
    fn told(&self, version: u64) -> Object {
        let head =
            Object::default().number("version", self.version).number("now", self.clock.now());
        let lists = Part::LISTS.into_iter().fold(head.with(&self.head()), |object, list| {
            let changed = self
                .parts
                .iter()
                .filter(|(part, shown)| part.list() == list && shown.changed > version);
            object.json(list, render::array(changed.map(|(_, shown)| &shown.json)))
        });
        let wholes = [("tree", &self.tree), ("deadlocks", &self.deadlocks)];
        let wholes = wholes.into_iter().filter(|(_, it)| version == 0 || it.changed > version);
        wholes.fold(lists, |object, (key, shown)| object.json(key, &shown.json))
    }

    fn head(&self) -> Object {
        let (broker, left_out) = &self.head;
        let (broker, error) = match broker {
            Broker::Unknown => ("unknown", None),
            Broker::Running => ("running", None),
            Broker::None => ("none", None),
            Broker::Stopped(pid) => {
                let goes_on = line_to_continue(&[*pid]);
                let goes_on =
                    goes_on.map_or_else(String::new, |line| format!(": '{line}' has it go on"));
                let error = format!(
                    "process {pid} is stopped, so that nobody is granted anything{goes_on}. What is shown \
                     is how it was."
                );
                ("stopped", Some(error))
            }
            Broker::Failed(error) => ("failed", Some(error.clone())),
        };
        Object::default()
            .string("broker", broker)
            .number("leftOut", *left_out)
            .if_known(error.as_ref(), |it, error| it.string("error", error))
    }

    /// Forgets what is remembered of names that have gone, as far as nobody needs it.
    pub(super) fn tidy(&mut self) {
        let Self { keys, parts, picture, .. } = self;
        picture.past.tidy();
        let past = &picture.past.names;
        keys.retain(|name, key| parts.contains_key(&Part::Name(*key)) || past.contains_key(name));
    }

    /// The name with this number, and all its holders, if a page that has seen this version has
    /// seen these holders. Otherwise `None`.
    pub(super) fn seen_holding(&self, key: u64, version: u64) -> Option<(LockName, Vec<Holder>)> {
        let (held_since, held) = self.held.get(&key)?;
        let has_seen = (*held_since..=self.version).contains(&version);
        has_seen.then(|| Some((self.named(key)?.clone(), held.clone())))?
    }

    /// The past holders of the name with this number.
    pub(super) fn history_of(&self, key: u64) -> Option<String> {
        Some(render::spans(&self.picture.past, self.named(key)?, self.clock))
    }

    /// The name with this number.
    fn named(&self, key: u64) -> Option<&LockName> {
        self.keys.iter().find(|(_, of)| **of == key).map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests;
