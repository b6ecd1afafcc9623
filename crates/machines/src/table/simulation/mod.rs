//! What tests see of the table that nobody else does.

use std::fmt::Debug;

pub(crate) use super::owned_name::Usage;
use super::{
    Table,
    entries::{AgentSerial, State},
};
use crate::names::NameKey;

/// A lock that only this connection knows.
#[derive(Debug)]
pub(crate) struct HeldHere {
    /// Its name.
    pub(crate) name: NameKey,
    /// The revision that made the owner key.
    pub(crate) made: i64,
    /// The lease of the owner key.
    pub(crate) lease: i64,
    /// The agent that holds the lock.
    pub(crate) agent: AgentSerial,
}

impl Table {
    /// Everything on which the further course of the table depends, in an order of its own.
    pub(crate) fn shown(&self) -> impl Debug {
        let agents = self.agents.iter().map(|(at, agent)| {
            (at, agent.serial, agent.bucket, agent.terminated, agent.ends, agent.lease)
        });
        let requests = self.requests.iter().map(|(at, of)| {
            let whose = (of.serial, of.lock_serial, of.agent);
            let asked = (at, whose, &of.of, &of.name, of.kind, of.since);
            let stands = (of.key, of.is_here, of.queued, of.on_lease_end, of.status());
            (asked, stands, of.state.answer())
        });
        let mut buckets: Vec<_> =
            self.buckets.values().map(|open| (open.number, open.uses)).collect();
        buckets.sort_unstable();
        let mut owned: Vec<_> = self.owned.iter().collect();
        owned.sort_by_key(|(_, owned)| owned.made);
        let (agents, requests) = (agents.collect::<Vec<_>>(), requests.collect::<Vec<_>>());
        (agents, requests, buckets, owned)
    }

    /// The locks that are held here, and their agents.
    pub(crate) fn held_here(&self) -> impl Iterator<Item = HeldHere> {
        self.owned.iter().flat_map(move |(of, owned)| {
            let requests = self.names.get(of).into_iter().flatten();
            let held = requests.map(|&index| &self.requests[index]);
            let held = held.filter(|of| of.is_here && matches!(of.state, State::Held(..)));
            let agents = held.filter_map(|held| Some(self.agents.get(held.agent?.index())?.serial));
            let (name, made, lease) = (&of.1, owned.made, owned.lease.id);
            agents.map(move |agent| HeldHere { name: name.clone(), made, lease, agent })
        })
    }
}
