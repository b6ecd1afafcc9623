//! The table as it is shown: everything on which its further course depends, in an order of its own, so that
//! tables can be compared.

use std::fmt;

use super::Table;

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        let mut owned: Vec<_> = self.owned.iter().collect();
        owned.sort_by_key(|(_, owned)| owned.made);
        let (agents, requests) = (agents.collect::<Vec<_>>(), requests.collect::<Vec<_>>());
        (agents, requests, buckets, owned).fmt(f)
    }
}
