//! The data that is shown: the broker's current state, and the memory of past events.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use navlock::{
    AgentInfo, ClientId,
    look::{Change, Deadlock, Entry, Event, LockId, LockName, Overview, Queue},
};

use super::measures::{Rate, Times};
use crate::text::bytes_of;

/// How long a name that nobody uses is remembered.
const MEMORY: Duration = Duration::from_secs(60);

/// How many names that nobody uses are remembered at most, and how many bytes these names have.
const MOST: usize = 20_000;
const MOST_BYTES: usize = 8 << 20;

/// How many events of one name are remembered.
const PAST: usize = 20;

/// All that is shown.
#[derive(Clone, Debug)]
pub(super) struct Data {
    pub(super) overview: Overview,
    /// The PID namespace in which the broker sees processes, if it is known.
    pub(super) namespace: Option<u64>,
    /// All names of the overview, and other names that were in it.
    pub(super) known: HashMap<LockName, Known>,
    /// The length of these names together, in bytes, and the length that they may reach before this
    /// looks for names to forget.
    bytes: usize,
    most_bytes: usize,
    /// The events.
    pub(super) events: Rate,
    /// How many events were missed.
    pub(super) missed: u64,
    pub(super) broker: Broker,
    /// The deadlocks that have lasted.
    pub(super) deadlocks: Vec<Deadlock>,
    pub(super) start: Instant,
    pub(super) now: Instant,
}

/// The state of the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Broker {
    /// The broker has not said anything so far.
    Silent,
    /// The broker tells what happens.
    Telling,
    /// There is no broker, so nobody holds anything.
    None,
    /// The broker cannot be asked, for this reason.
    Failed(String),
}

/// What is remembered of a name.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) grants: Rate,
    /// How long requests waited until they were granted.
    pub(super) waits: Times,
    /// The events of the name. The last event is at the end.
    pub(super) past: VecDeque<Past>,
    /// When the name was last heard of.
    used: Instant,
}

/// Something that has happened to a name.
#[derive(Clone, Debug)]
pub(super) struct Past {
    pub(super) at: Instant,
    pub(super) word: &'static str,
    pub(super) id: ClientId,
    pub(super) agent: Option<Arc<AgentInfo>>,
    /// How long the request had waited, or the lock was held.
    pub(super) took: Option<Duration>,
}

/// What the looker has heard.
#[derive(Debug)]
pub(super) enum Heard {
    /// The whole present state.
    Anew {
        overview: Box<Overview>,
        /// How many events were missed before.
        missed: u64,
        /// The PID namespace of the broker.
        namespace: Option<u64>,
    },
    Events(Vec<Event>),
    NoBroker,
    Failed(String),
}

impl Known {
    fn new(now: Instant) -> Self {
        Self { grants: Rate::default(), waits: Times::default(), past: VecDeque::new(), used: now }
    }
}

impl Data {
    /// The buckets that there are.
    pub(super) fn buckets(&self) -> BTreeSet<String> {
        let of_names = self.known.keys().map(|name| &name.bucket);
        let of_agents = self.overview.agents.values().map(|agent| &agent.bucket);
        let all: BTreeSet<&str> = of_names.chain(of_agents).map(|bucket| &**bucket).collect();
        all.into_iter().map(str::to_owned).collect()
    }

    pub(super) fn new(now: Instant) -> Self {
        Self {
            overview: Overview::default(),
            namespace: None,
            known: HashMap::new(),
            bytes: 0,
            most_bytes: MOST_BYTES,
            events: Rate::default(),
            missed: 0,
            broker: Broker::Silent,
            deadlocks: Vec::new(),
            start: now,
            now,
        }
    }

    /// The number of the current second since the beginning.
    pub(super) fn second(&self) -> u64 {
        self.now.saturating_duration_since(self.start).as_secs()
    }

    pub(super) fn receive(&mut self, heard: Heard) {
        match heard {
            Heard::Anew { overview, missed, namespace } => {
                self.namespace = namespace;
                self.missed = self.missed.saturating_add(missed);
                self.overview = *overview;
                for name in self.overview.queues.keys() {
                    if !self.known.contains_key(name) {
                        self.bytes += bytes_of(name);
                        self.known.insert(name.clone(), Known::new(self.now));
                    }
                }
                self.broker = Broker::Telling;
            }
            Heard::Events(events) => {
                self.events.add(self.second(), events.len() as u64);
                for event in &events {
                    self.take_in(event);
                }
            }
            Heard::NoBroker => {
                self.overview = Overview::default();
                self.broker = Broker::None;
            }
            Heard::Failed(why) => self.broker = Broker::Failed(why),
        }
        let most = 2 * (self.overview.queues.len() + MOST);
        if self.known.len() > most || self.bytes > self.most_bytes {
            self.forget();
        }
    }

    fn take_in(&mut self, event: &Event) {
        let before = |name: &LockName, id: LockId| -> Option<(Entry, bool)> {
            let Queue { held, pending, owned, .. } = self.overview.queues.get(name)?;
            let of = |entries: &[Entry]| entries.iter().find(|entry| entry.id == id).cloned();
            of(pending)
                .map(|entry| (entry, false))
                .or_else(|| of(held).or_else(|| of(owned)).map(|entry| (entry, true)))
        };
        let age = |before: &Option<(Entry, bool)>| {
            before.as_ref().map(|(entry, _)| event.at.saturating_duration_since(entry.since))
        };
        let change = &event.change;
        match change {
            Change::Granted { name, entry } => {
                let before = before(name, entry.id);
                // The request was told again, because more is known of it.
                if !before.as_ref().is_some_and(|(_, is_held)| *is_held) {
                    let waited = before
                        .map(|(before, _)| entry.since.saturating_duration_since(before.since));
                    self.granted(name, waited.unwrap_or_default(), 1);
                    self.past(name, event, Ok(entry), waited);
                }
            }
            Change::Requested { name, entry } if before(name, entry.id).is_none() => {
                self.past(name, event, Ok(entry), None);
            }
            Change::Owned { name, entry, .. } => {
                let taken = before(name, entry.id).map_or(0, |(before, _)| before.taken);
                self.granted(name, Duration::ZERO, entry.taken.saturating_sub(taken));
            }
            Change::Released { name, id }
            | Change::Aborted { name, id }
            | Change::Lost { name, id, .. }
            | Change::Recalled { name, id } => {
                let before = before(name, *id);
                let entry = before.as_ref().map(|(entry, _)| entry).ok_or(id.client_id);
                self.past(name, event, entry, age(&before));
            }
            Change::Unavailable { name, agent } => self.past(name, event, Err(*agent), None),
            Change::AgentWent { agent } => self.went(event, |id, _| id == *agent),
            Change::ClientWent { client } => {
                self.went(event, |_, of| of == Some(*client));
            }
            _ => {}
        }
        self.overview.apply(event);
    }

    fn known(&mut self, name: &LockName) -> &mut Known {
        // FAST: most names are known.
        if !self.known.contains_key(name) {
            self.bytes += bytes_of(name);
            self.known.insert(name.clone(), Known::new(self.now));
        }
        self.known.get_mut(name).expect("it was inserted if it was not there")
    }

    fn granted(&mut self, name: &LockName, waited: Duration, count: u64) {
        let (second, now) = (self.second(), self.now);
        let known = self.known(name);
        known.used = now;
        if count > 0 {
            known.grants.add(second, count);
            known.waits.add(waited, count);
        }
    }

    /// Remembers an event of this lock or request or, if that is not known, of this agent.
    fn past(
        &mut self,
        name: &LockName,
        event: &Event,
        of: Result<&Entry, ClientId>,
        took: Option<Duration>,
    ) {
        let (id, agent) = match of {
            Ok(entry) => (entry.id.client_id, self.overview.info_of(entry)),
            Err(id) => (id, self.overview.info(id).cloned()),
        };
        let (at, word, now) = (event.at, event.change.word(), self.now);
        let known = self.known(name);
        known.used = now;
        if known.past.len() == PAST {
            known.past.pop_front();
        }
        known.past.push_back(Past { at, word, id, agent, took });
    }

    /// Notes that agents have ended, with all their locks and requests.
    fn went(&mut self, event: &Event, is_one: impl Fn(ClientId, Option<u64>) -> bool) {
        let gone: Vec<_> = self
            .overview
            .agents
            .iter()
            .filter(|(id, agent)| is_one(**id, agent.client))
            .map(|(id, agent)| (*id, Arc::clone(&agent.bucket)))
            .collect();
        for (id, bucket) in gone {
            let queues = self.overview.queues.iter().filter(|(name, _)| name.bucket == bucket);
            let theirs = queues.filter_map(|(name, queue)| {
                let mut all = queue.held.iter().chain(&queue.pending);
                all.find(|entry| entry.id.client_id == id).map(|entry| (name.clone(), entry.since))
            });
            for (name, since) in theirs.collect::<Vec<_>>() {
                let took = event.at.saturating_duration_since(since);
                self.past(&name, event, Err(id), Some(took));
            }
        }
    }

    /// To be called when time has passed.
    pub(super) fn tick(&mut self, now: Instant) {
        let before = self.second();
        self.now = now;
        // FAST: once a second is often enough to look for names to forget.
        if self.second() == before {
            return;
        }
        self.keep(|known| now.saturating_duration_since(known.used) < MEMORY);
    }

    /// Keeps the names that `is_kept` accepts, and those that somebody uses.
    fn keep(&mut self, is_kept: impl Fn(&Known) -> bool) {
        let (queues, bytes) = (&self.overview.queues, &mut self.bytes);
        self.known.retain(|name, known| {
            let is_kept = is_kept(known) || queues.contains_key(name);
            *bytes -= if is_kept { 0 } else { bytes_of(name) };
            is_kept
        });
    }

    /// Forgets the names that have been unused for longest, until the unused names are half of what
    /// may be kept.
    fn forget(&mut self) {
        let queues = &self.overview.queues;
        let unused = self.known.iter().filter(|(name, _)| !queues.contains_key(name));
        let mut unused: Vec<_> = unused.map(|(name, known)| (known.used, bytes_of(name))).collect();
        unused.sort_unstable_by_key(|(used, _)| std::cmp::Reverse(*used));
        let mut left = 0;
        let first = unused.iter().take(MOST).take_while(|(_, bytes)| {
            left += bytes;
            left <= MOST_BYTES / 2
        });
        let kept = first.count();
        if let Some((latest, _)) = unused.get(kept).copied() {
            self.keep(|known| known.used > latest);
        }
        // FAST: names in use are not looked through again before there are as many more.
        let of_unused: usize = unused[..kept].iter().map(|(_, bytes)| bytes).sum();
        self.most_bytes = 2 * self.bytes.saturating_sub(of_unused) + MOST_BYTES;
    }
}
