//! Requests and locks of the table that the store may know of, by name and by agent.

use navlock_engine::{AgentId, RequestId};

use super::{
    KnownOf, Table,
    entries::{AgentSerial, Request, State, Status, narrow},
};
use crate::{
    clock::Uptime,
    names::{NameKey, RequestKey},
};

impl Table {
    /// Whether there is any request or lock of this name.
    pub(crate) fn has_requests(&self, bucket: u64, name: &NameKey) -> bool {
        self.names.contains_key(&(bucket, name.clone()))
    }

    /// Whether any request for this name waits.
    pub(crate) fn waits_for(&self, bucket: u64, name: &NameKey) -> bool {
        self.waits_since(bucket, name).is_some()
    }

    /// Since when the first request for this name waits that waits.
    pub(crate) fn waits_since(&self, bucket: u64, name: &NameKey) -> Option<Uptime> {
        let of = self.names.get(&(bucket, name.clone())).into_iter().flatten();
        let of = of.map(|&index| &self.requests[index]);
        let waits = of.filter(|of| matches!(of.status(), Status::Pending(_)));
        waits.map(|request| request.since).min()
    }

    /// Whether there are no requests at all.
    pub(crate) fn is_unused(&self) -> bool {
        self.names.is_empty()
    }

    /// All pending requests and locks of this name that the store may know of, in the order of the
    /// requests.
    pub(crate) fn of_name(
        &self,
        bucket: u64,
        name: &NameKey,
    ) -> Vec<(RequestId, RequestKey, Status)> {
        let is_alive = |status| matches!(status, Status::Pending(_) | Status::Held(_));
        let of = self.names.get(&(bucket, name.clone())).into_iter().flatten();
        let of = of.map(|&index| (index, &self.requests[index]));
        let alive = of.filter(|(_, request)| is_alive(request.status()));
        let mut alive: Vec<_> = alive
            .filter_map(|(index, request)| {
                let id = RequestId::from_parts(narrow(index), request.serial);
                Some((id, request.key?, request.status()))
            })
            .collect();
        alive.sort_unstable_by_key(|(id, ..)| id.serial());
        alive
    }

    /// All pending requests and locks that the store may know of. For each: the bucket and the name,
    /// whether it is held, and its agent.
    pub(crate) fn alive(
        &self,
    ) -> impl Iterator<Item = (u64, &NameKey, RequestKey, bool, AgentSerial)> {
        self.names.iter().flat_map(move |((bucket, name), of)| {
            of.iter().filter_map(move |&index| {
                let request = &self.requests[index];
                let is_held = match request.status() {
                    Status::Held(_) => true,
                    Status::Pending(_) => false,
                    Status::Ended | Status::Absent => return None,
                };
                let serial = self.agent(request.agent?)?;
                Some((*bucket, name, request.key?, is_held, serial))
            })
        })
    }

    /// All locks and requests of the agent that the store may know of, in the order of the requests.
    pub(crate) fn known_of(&self, agent: AgentId) -> Vec<KnownOf> {
        let Some(agent) = self.agents.get(agent.index()) else { return Vec::new() };
        let is_alive =
            |request: &&Request| matches!(request.status(), Status::Pending(_) | Status::Held(_));
        let all = agent.requests.iter().map(|&index| &self.requests[index]).filter(is_alive);
        let mut all: Vec<_> = all.collect();
        all.sort_unstable_by_key(|of| of.serial);
        let known = |of: &Request| {
            Some(KnownOf { name: of.of.1.clone(), key: of.key?, said: of.said.clone() })
        };
        all.into_iter().filter_map(known).collect()
    }

    /// All pending requests of the agent that the store may know of.
    pub(crate) fn pending_of(&self, agent: AgentId) -> Vec<(RequestId, NameKey, RequestKey)> {
        let Some(agent) = self.agents.get(agent.index()) else { return Vec::new() };
        let pending = agent.requests.iter().filter_map(|&index| {
            let request = &self.requests[index];
            let id = RequestId::from_parts(narrow(index), request.serial);
            let name = request.of.1.clone();
            matches!(request.state, State::Pending(_)).then_some((id, name, request.key?))
        });
        pending.collect()
    }
}
