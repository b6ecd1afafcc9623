//! What lookers are told of a client.

use std::{collections::HashSet, ops::Range, sync::Arc};

use navlock_core::{
    ResourceName,
    look::{self, Change, Client, ClientState, LookOptions},
};
use navlock_wire::{Agent, LookEvent, Moment};

use super::{ClientRecord, OpenAgent};
use crate::clock;

/// How much of a client is still to be read: the entries at the places before these.
#[derive(Clone, Copy)]
pub(in super::super) struct Place {
    agents: usize,
    requests: usize,
}

impl ClientRecord {
    /// Sets the client's number and state, and tells lookers of the client and of its agents.
    pub(in super::super) fn set_number(&mut self, number: u64, state: ClientState) {
        let before = self.number.replace((number, state));
        if !self.lookers.are_there() {
            return;
        }
        for LookEvent { at, change } in self.self_and_agents(&LookOptions::default()) {
            self.lookers.tell_at(|| at, || change);
        }
        // Lookers are told last that the old number is gone, when the agents have moved to the new
        // one.
        if let Some((client, _)) = before.filter(|(client, _)| *client != number) {
            self.lookers.tell(|| Change::ClientWent { client });
        }
    }

    /// Reads on, at most `room` places, and subtracts the places that were read from `room`.
    /// Returns where to go on; `None` if all was read.
    ///
    /// Entries that have begun or changed since `began` are left out: events tell lookers of them.
    pub(in super::super) fn look(
        &self,
        at: Option<Place>,
        most: &mut usize,
        (options, began): (&LookOptions, Moment),
        events: &mut Vec<LookEvent>,
    ) -> Option<Place> {
        // If there is no number, the client has ended, and an event tells lookers of that.
        let (client, state) = self.number?;
        let mut at = at.unwrap_or_else(|| {
            *most = most.saturating_sub(1);
            events.push(LookEvent { at: self.since, change: self.came(client, state) });
            Place { agents: self.agents.len(), requests: self.requests.len() }
        });
        let agents = step(&mut at.agents, most).filter_map(|place| self.agents.get_index(place));
        let agents = agents.filter(|(_, open)| options.wants_bucket(&open.of.bucket));
        let agents = agents.map(|(_, open)| self.agent_came(open));
        events.extend(agents.map(|change| LookEvent { at: self.since, change }));
        let now = clock::now();
        let wanted = |bucket: &str, name: &ResourceName| options.wants_name(bucket, name);
        let changes = self.requests.changes_at(step(&mut at.requests, most), wanted);
        let is_told = |since: Moment| began < since && since <= now;
        let changes = changes.filter(|(since, _)| !is_told(*since));
        events.extend(changes.map(|(at, change)| LookEvent { at, change }));
        (at.agents + at.requests > 0).then_some(at)
    }

    /// The client, with its agents and its requests and locks of these names.
    pub(in super::super) fn look_at(
        &self,
        wanted: impl Fn(&str, &ResourceName) -> bool,
        events: &mut Vec<LookEvent>,
    ) {
        let mut agents = HashSet::new();
        for (at, change) in self.requests.changes(wanted) {
            agents.extend(change.agent());
            events.push(LookEvent { at, change });
        }
        // FAST: most clients have no requests and locks of these names.
        if agents.is_empty() {
            return;
        }
        let theirs = |open: &&OpenAgent| agents.contains(&open.of.client_id);
        let whose = self.agents.values().filter(theirs).map(|open| self.agent_came(open));
        events.extend(whose.map(|change| LookEvent { at: self.since, change }));
    }

    fn self_and_agents(&self, options: &LookOptions) -> Vec<LookEvent> {
        let Some((client, state)) = self.number else { return Vec::new() };
        let came = self.came(client, state);
        let agents = self.agents.values().filter(|open| options.wants_bucket(&open.of.bucket));
        let agents = agents.map(|open| self.agent_came(open));
        let changes = [came].into_iter().chain(agents);
        changes.map(|change| LookEvent { at: self.since, change }).collect()
    }

    fn came(&self, client: u64, state: ClientState) -> Change {
        let pid = self.process.as_ref().map_or(0, super::Process::number);
        Change::ClientCame { client, details: Client::new(pid, state) }
    }

    /// Tells lookers of an agent.
    pub(super) fn tell_agent(&self, agent: Agent) {
        if let Some(open) = self.agents.get(&agent).filter(|_| self.lookers.are_there()) {
            self.lookers.tell(|| self.agent_came(open));
        }
    }

    fn agent_came(&self, open: &OpenAgent) -> Change {
        let client = self.number.map(|(client, _)| client);
        let details = look::Agent::new(Arc::clone(&open.of.bucket), Arc::clone(&open.info), client);
        Change::AgentCame { agent: open.of.client_id, details }
    }
}

/// The next places on the way down from `from`, but no more than `most`.
fn step(from: &mut usize, most: &mut usize) -> Range<usize> {
    let end = *from;
    *from = end.saturating_sub(*most);
    *most -= end - *from;
    *from..end
}
