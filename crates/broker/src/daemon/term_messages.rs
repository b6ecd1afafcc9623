//! Telling a client until when what its agents have is their own.
//!
//! A daemon that is stopped, hung or cut off from what keeps the locks cannot say that they are lost.
//! So the client is told beforehand when they will be, if it hears nothing further.

use std::{
    collections::HashMap,
    task::{Context, Poll},
    time::Duration,
};

use navlock_core::host::Term;
use navlock_engine::RequestId;
use navlock_wire::{Agent, FromDaemon, Uptime};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::{client::Client, leases::Leases};
use crate::clock::nanos;

/// How often it is looked whether there is more to say. A lease is renewed less often.
const LOOK: Duration = Duration::from_millis(500);

/// The oldest version that knows of [`FromDaemon::TermBounds`].
const BOUNDS: u16 = 4;

/// A term, and the rest of it.
pub(super) type TermMessages = [Option<FromDaemon>; 2];

/// What one client was told.
pub(super) struct Terms {
    said: HashMap<Agent, Uptime>,
    version: u16,
    look: Interval,
    /// `None` where nobody comes back.
    leases: Option<Leases>,
}

impl Terms {
    /// For a client of this version, whose leases are noted there.
    pub(super) fn new(version: u16, leases: Option<Leases>) -> Self {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { said: HashMap::new(), version, look, leases }
    }

    /// What is to be said before it is said that this request was granted.
    pub(super) fn before_grant(&mut self, client: &Client, request: RequestId) -> TermMessages {
        let Some(agent) = client.agent_of(request) else { return [None, None] };
        if client.ends(agent).is_none() {
            // It was lost since, which is told next. Until then it is not to be held without end.
            self.said.remove(&agent);
            return [Some(FromDaemon::Term { agent, ends: 0 }), None];
        }
        if let Some(leases) = &mut self.leases {
            leases.note(client, agent);
        }
        self.new_of(client, agent)
    }

    /// What is to be said of those who hold something, and to who understands it of those who wait.
    pub(super) fn news(&mut self, client: &Client) -> Vec<FromDaemon> {
        if let Some(leases) = &mut self.leases {
            leases.note_all(client);
        }
        let agents = if self.version >= BOUNDS { client.askers() } else { client.holders() };
        agents.into_iter().flat_map(|agent| self.new_of(client, agent)).flatten().collect()
    }

    fn new_of(&mut self, client: &Client, agent: Agent) -> TermMessages {
        let Some(ends) = client.ends(agent) else { return [None, None] };
        if self.said.insert(agent, ends) == Some(ends) {
            return [None, None];
        }
        let bounds = client.term(agent).filter(|_| self.version >= BOUNDS);
        let bounds = bounds.map(|Term { heard, due, expires, .. }| {
            let [heard, due, expires] = [heard, due, expires].map(nanos);
            FromDaemon::TermBounds { agent, heard, due, expires }
        });
        [Some(FromDaemon::Term { agent, ends }), bounds]
    }

    /// The agent's number may be another's from here on.
    pub(super) fn forget(&mut self, agent: Agent) {
        self.said.remove(&agent);
        if let Some(leases) = &mut self.leases {
            leases.forget(agent);
        }
    }

    /// Ready when it is time to look for news.
    pub(super) fn poll_look(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut is_due = Poll::Pending;
        // To its end, so that it wakes us for the next time.
        while self.look.poll_tick(context).is_ready() {
            is_due = Poll::Ready(());
        }
        is_due
    }
}
