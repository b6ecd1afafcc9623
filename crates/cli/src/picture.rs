//! What a look at a broker has told: what there is, and what has happened since the look began.

pub(crate) mod past;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use navlock::{
    ConnectError, Look, News,
    look::{Deadlock, Event, LockName, Overview},
};

use self::past::{NamePast, Past, Rate};
use crate::reach::unseen;

/// How long a name that nobody uses is shown.
const MEMORY: Duration = Duration::from_secs(60);

/// All that is shown.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    pub(crate) past: Past,
    /// The PID namespace in which the broker sees processes, if it is known.
    pub(crate) namespace: Option<u64>,
    /// How often anything happens.
    pub(crate) events: Rate,
    /// How many events were missed.
    pub(crate) missed: u64,
    pub(crate) broker: Broker,
    /// The deadlocks that have lasted.
    pub(crate) deadlocks: Vec<Deadlock>,
    pub(crate) now: Instant,
}

/// The state of the broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Broker {
    /// The broker has not said anything so far.
    #[default]
    Unknown,
    /// The broker tells what happens.
    Running,
    /// There is no broker, so nobody holds anything.
    None,
    /// The broker's process, which has this number, is stopped.
    Stopped(u32),
    /// The broker cannot be asked, for this reason.
    Failed(String),
}

impl Default for Picture {
    fn default() -> Self {
        let past = Past::default();
        Self {
            now: past.began,
            past,
            namespace: None,
            events: Rate::default(),
            missed: 0,
            broker: Broker::Unknown,
            deadlocks: Vec::new(),
        }
    }
}

impl Picture {
    /// What there is now.
    pub(crate) fn overview(&self) -> &Overview {
        &self.past.overview
    }

    /// The names that somebody uses, and those that somebody has used lately.
    pub(crate) fn names(&self) -> impl Iterator<Item = &LockName> {
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
    pub(crate) fn buckets(&self) -> BTreeSet<&str> {
        let of_names = self.names().map(|name| &name.bucket);
        let of_agents = self.overview().agents.values().map(|agent| &agent.bucket);
        of_names.chain(of_agents).map(|bucket| &**bucket).collect()
    }

    /// Takes in what the look has told. Returns whether anything is new.
    pub(crate) fn take(&mut self, look: &Look, news: Result<Option<News>, ConnectError>) -> bool {
        match news {
            Ok(None) => return false,
            Ok(Some(News::Events(events))) => self.happened(&events),
            Ok(Some(News::Anew { missed })) => {
                self.anew(look.overview().clone(), missed, look.pid_namespace());
            }
            Ok(Some(_)) => match unseen(look.place()) {
                // What was there is there still, as far as anybody can tell.
                Some(why) => return self.broker_is(Broker::Failed(why)),
                None => self.without_broker(),
            },
            Err(error) => return self.broker_is(Broker::Failed(error.to_string())),
        }
        true
    }

    /// To be called when the whole state was told anew, after so many events that were missed.
    pub(crate) fn anew(&mut self, overview: Overview, missed: u64, namespace: Option<u64>) {
        self.namespace = namespace;
        self.missed = self.missed.saturating_add(missed);
        self.past.anew(overview);
        self.broker = Broker::Running;
    }

    /// Takes in events.
    pub(crate) fn happened(&mut self, events: &[Event]) {
        for event in events {
            self.events.add(self.past.second(event.at), 1);
            self.past.event(event);
        }
    }

    /// To be called when there is no broker.
    pub(crate) fn without_broker(&mut self) {
        // Its clients may hold on.
        self.past.overview = Overview::default();
        self.broker = Broker::None;
    }

    /// Sets the state of the broker. Returns whether the state was another one before.
    pub(crate) fn broker_is(&mut self, broker: Broker) -> bool {
        let was = std::mem::replace(&mut self.broker, broker);
        was != self.broker
    }

    /// To be called when time has passed.
    pub(crate) fn tick(&mut self, now: Instant) {
        let before = self.past.second(self.now);
        self.now = now;
        // FAST: once a second is often enough.
        if self.past.second(now) > before {
            self.past.tidy();
        }
    }
}
