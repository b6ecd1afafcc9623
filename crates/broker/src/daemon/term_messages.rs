//! Terms: tells a client until when its agents have their locks.
//!
//! A daemon that is stopped, hung, or cut off from the service that keeps the locks cannot say that
//! locks are lost. So the daemon tells the client beforehand when the locks will be lost, unless
//! the client hears of a later time.

use std::{
    collections::HashMap,
    task::{Context, Poll},
    time::Duration,
};

use navlock_core::host::Term;
use navlock_engine::RequestId;
use navlock_wire::{Agent, BootTime, FromDaemon, TermBounds};

use super::{client_record::ClientRecord, leases::Leases, timers::Interval};
use crate::clock::boot_time;

/// How often the session looks for terms that have changed. Leases are renewed less often than
/// that.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// What one client was told of the terms of its agents.
pub(super) struct ToldTerms {
    said: HashMap<Agent, BootTime>,
    checks: Interval,
    /// The notes of the client's leases.
    leases: Leases,
}

impl ToldTerms {
    /// The record for a client whose leases are noted in `leases`.
    pub(super) fn new(leases: Leases) -> Self {
        Self { said: HashMap::new(), checks: Interval::new(CHECK_INTERVAL), leases }
    }

    /// The message that must come before the grant of this request.
    pub(super) fn before_grant(
        &mut self,
        client: &ClientRecord,
        request: RequestId,
    ) -> Option<FromDaemon> {
        let agent = client.requests.agent_of(request)?;
        if client.ends(agent).is_none() {
            // The lock has been lost since, and the loss is told next. Until then the client must
            // not believe that it has the lock for ever.
            self.said.remove(&agent);
            return Some(FromDaemon::Term { agent, ends: BootTime(0), bounds: None });
        }
        self.leases.note(client, agent);
        self.new_of(client, agent)
    }

    /// The messages of terms that have changed: the terms of agents that hold locks or
    /// wait.
    pub(super) fn news(&mut self, client: &ClientRecord) -> Vec<FromDaemon> {
        self.leases.note_all(client);
        let agents = client.askers();
        agents.into_iter().filter_map(|agent| self.new_of(client, agent)).collect()
    }

    fn new_of(&mut self, client: &ClientRecord, agent: Agent) -> Option<FromDaemon> {
        let ends = client.ends(agent)?;
        if self.said.insert(agent, ends) == Some(ends) {
            return None;
        }
        let bounds = client.term(agent).map(|Term { heard, due, expires, .. }| {
            let [heard, due, expires] = [heard, due, expires].map(boot_time);
            TermBounds { heard, due, expires }
        });
        Some(FromDaemon::Term { agent, ends, bounds })
    }

    /// Forgets an agent: another one may get its number from here on.
    pub(super) fn forget(&mut self, agent: Agent) {
        self.said.remove(&agent);
        self.leases.forget(agent);
    }

    /// Ready when it is time to look for terms that have changed.
    pub(super) fn poll_look(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut is_due = Poll::Pending;
        // The timer is polled until it is pending, so that it wakes this task the next time.
        while self.checks.poll_tick(context).is_ready() {
            is_due = Poll::Ready(());
        }
        is_due
    }
}
