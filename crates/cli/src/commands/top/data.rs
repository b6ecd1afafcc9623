//! The data that is shown: the broker's current state, and the memory of past events.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use navlock::look::{Deadlock, Event, LockName, Overview};

use crate::past::{NamePast, Past, Rate};

/// How long a name that nobody uses is shown.
const MEMORY: Duration = Duration::from_secs(60);

/// All that is shown.
#[derive(Clone, Debug)]
pub(super) struct Data {
    pub(super) past: Past,
    /// The PID namespace in which the broker sees processes, if it is known.
    pub(super) namespace: Option<u64>,
    /// The events.
    pub(super) events: Rate,
    /// How many events were missed.
    pub(super) missed: u64,
    pub(super) broker: Broker,
    /// The deadlocks that have lasted.
    pub(super) deadlocks: Vec<Deadlock>,
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

impl Data {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            past: Past::new(now),
            namespace: None,
            events: Rate::default(),
            missed: 0,
            broker: Broker::Silent,
            deadlocks: Vec::new(),
            now,
        }
    }

    /// What there is now.
    pub(super) fn overview(&self) -> &Overview {
        &self.past.overview
    }

    /// The names that somebody uses, and those that somebody has used lately.
    pub(super) fn names(&self) -> impl Iterator<Item = &LockName> {
        let queues = &self.overview().queues;
        let is_recent = |of_name: &NamePast| {
            let last = of_name.ended.back().and_then(|span| span.end.as_ref());
            last.is_some_and(|end| self.now.saturating_duration_since(end.at) < MEMORY)
        };
        let past = self
            .past
            .names
            .iter()
            .filter(move |(name, of_name)| is_recent(of_name) && !queues.contains_key(name));
        queues.keys().chain(past.map(|(name, _)| name))
    }

    /// The buckets that there are.
    pub(super) fn buckets(&self) -> BTreeSet<String> {
        let of_names = self.names().map(|name| &name.bucket);
        let of_agents = self.overview().agents.values().map(|agent| &agent.bucket);
        let all: BTreeSet<&str> = of_names.chain(of_agents).map(|bucket| &**bucket).collect();
        all.into_iter().map(str::to_owned).collect()
    }

    /// The number of the current second since the beginning.
    pub(super) fn second(&self) -> u64 {
        self.past.second(self.now)
    }

    pub(super) fn receive(&mut self, heard: Heard) {
        match heard {
            Heard::Anew { overview, missed, namespace } => {
                self.namespace = namespace;
                self.missed = self.missed.saturating_add(missed);
                self.past.anew(*overview);
                self.broker = Broker::Telling;
            }
            Heard::Events(events) => {
                self.events.add(self.second(), events.len() as u64);
                for event in &events {
                    self.past.event(event);
                }
            }
            Heard::NoBroker => {
                // Its clients may hold on.
                self.past.overview = Overview::default();
                self.broker = Broker::None;
            }
            Heard::Failed(why) => self.broker = Broker::Failed(why),
        }
    }

    /// To be called when time has passed.
    pub(super) fn tick(&mut self, now: Instant) {
        let before = self.second();
        self.now = now;
        // FAST: once a second is often enough.
        if self.second() > before {
            self.past.tidy();
        }
    }
}
