//! What those who look see of a client.

use std::{collections::HashSet, sync::Arc};

use navlock_core::ResourceName;
use navlock_wire::{Agent, ClientState, LookChange, LookEvent};

use super::{super::lookers::Filter, Client, OpenAgent};
use crate::forms::to_wire;

impl Client {
    /// It has this number from now on, and is so: tells those who look, of its agents as well.
    pub(in super::super) fn set_room(&mut self, room: u64, state: ClientState) {
        let before = self.room.replace((room, state));
        if !self.lookers.are_there() {
            return;
        }
        for LookEvent { at, change } in self.self_and_agents(&Filter::default()) {
            self.lookers.tell_at(|| at, || change);
        }
        // Afterwards: its agents have moved.
        if let Some((client, _)) = before.filter(|(client, _)| *client != room) {
            self.lookers.tell(|| LookChange::ClientWent { client });
        }
    }

    /// All that there is of it.
    pub(in super::super) fn look(&self, filter: &Filter, events: &mut Vec<LookEvent>) {
        events.extend(self.self_and_agents(filter));
        let wanted = |bucket: &str, name: &ResourceName| filter.has(bucket, name);
        let changes = self.requests.changes(wanted);
        events.extend(changes.map(|(at, change)| LookEvent { at, change }));
    }

    /// What there is of it of these names, with whose that is.
    pub(in super::super) fn look_at(
        &self,
        wanted: impl Fn(&str, &ResourceName) -> bool,
        events: &mut Vec<LookEvent>,
    ) {
        let mut agents = HashSet::new();
        for (at, change) in self.requests.changes(wanted) {
            if let LookChange::Requested(_, entry)
            | LookChange::Granted(_, entry)
            | LookChange::Owned(_, entry, _) = &change
            {
                agents.insert(entry.id.0);
            }
            events.push(LookEvent { at, change });
        }
        // FAST: mostly it has nothing of these.
        if agents.is_empty() {
            return;
        }
        let theirs = |open: &&OpenAgent| agents.contains(&open.of.client_id.to_bytes());
        let whose = self.agents.values().filter(theirs).map(|open| self.agent_came(open));
        events.extend(whose.map(|change| LookEvent { at: self.since, change }));
    }

    fn self_and_agents(&self, filter: &Filter) -> Vec<LookEvent> {
        let Some((client, state)) = self.room else { return Vec::new() };
        let pid = self.process.as_ref().map_or(0, super::Process::number);
        let came = LookChange::ClientCame { client, pid, state };
        let agents = self.agents.values().filter(|open| filter.has_bucket(&open.of.bucket));
        let agents = agents.map(|open| self.agent_came(open));
        let changes = [came].into_iter().chain(agents);
        changes.map(|change| LookEvent { at: self.since, change }).collect()
    }

    /// Tells those who look what there is to know of an agent.
    pub(super) fn tell_agent(&self, agent: Agent) {
        if let Some(open) = self.agents.get(&agent).filter(|_| self.lookers.are_there()) {
            self.lookers.tell(|| self.agent_came(open));
        }
    }

    fn agent_came(&self, open: &OpenAgent) -> LookChange {
        LookChange::AgentCame {
            agent: open.of.client_id.to_bytes(),
            bucket: Arc::clone(&open.of.bucket),
            info: to_wire(&open.info),
            meta: open.info.meta.clone(),
            client: self.room.map(|(client, _)| client),
        }
    }
}
