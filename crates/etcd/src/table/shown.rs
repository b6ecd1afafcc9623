//! The contents of a table, for tests that compare tables.

use std::fmt::Debug;

use super::Table;

impl Table {
    /// Everything on which the further course of the table depends.
    pub(crate) fn shown(&self) -> impl Debug {
        let agents = self.agents.iter().map(|(at, agent)| {
            (at, agent.serial, agent.bucket, agent.terminated, agent.ends, agent.lease)
        });
        let requests = self.requests.iter().map(|(at, of)| {
            let asked = (at, of.serial, of.agent, &of.of, &of.name, of.kind, of.since);
            let stands = (of.key, of.is_here, of.queued, of.on_lease_end, of.status());
            (asked, stands, of.state.answer())
        });
        let mut buckets: Vec<_> =
            self.buckets.values().map(|open| (open.number, open.uses)).collect();
        buckets.sort_unstable();
        let (agents, requests) = (agents.collect::<Vec<_>>(), requests.collect::<Vec<_>>());
        (agents, requests, buckets, self.owned_names())
    }
}
