//! The agents of a lock manager.

use crate::{
    AgentId,
    agent::AgentEntry,
    links::{AgentIndex, to_index},
    list::List,
    manager::{KEEP, LockManager},
};

impl<T> LockManager<T> {
    /// Whether the agent has made a request here and has not been terminated since.
    #[inline]
    pub fn knows(&mut self, agent: AgentId) -> bool {
        self.find_agent(agent).is_some()
    }

    /// Whether the agent waits for anything or holds anything.
    pub fn has_something(&mut self, agent: AgentId) -> bool {
        self.find_agent(agent).is_some_and(|AgentIndex(index)| {
            let entry = &self.agents[index as usize];
            !(entry.requests.is_empty() && entry.locks.is_empty())
        })
    }

    /// The index of the agent in `agents`, if the agent is known.
    #[inline]
    pub(crate) fn find_agent(&mut self, agent: AgentId) -> Option<AgentIndex> {
        // FAST: mostly the agent is the same as last time.
        let last = self.last_agent;
        if self.agents.get(last.0 as usize).is_some_and(|entry| entry.id == agent) {
            return Some(last);
        }
        let is_it = |&index: &u32| self.agents[index as usize].id == agent;
        let found = AgentIndex(*self.agent_numbers.find(agent.hash(), is_it)?);
        self.last_agent = found;
        Some(found)
    }

    /// The index of the agent in `agents`. Adds the agent if it is not known.
    #[inline]
    pub(crate) fn get_agent(&mut self, agent: AgentId) -> AgentIndex {
        self.find_agent(agent).unwrap_or_else(|| self.add_agent(agent))
    }

    /// Makes an agent known that was not known before.
    fn add_agent(&mut self, agent: AgentId) -> AgentIndex {
        let Self { agents, agent_numbers, .. } = self;
        let (requests, locks) = (List::default(), List::default());
        let index = to_index(agents.insert(AgentEntry { id: agent, requests, locks }));
        agent_numbers.insert_unique(agent.hash(), index, |&index| agents[index as usize].id.hash());
        self.few_agents = self.few_agents.max(self.agents.len() / 8);
        self.last_agent = AgentIndex(index);
        self.last_agent
    }

    /// Forgets an agent that has nothing.
    pub(crate) fn forget_agent(&mut self, AgentIndex(index): AgentIndex) {
        let entry = self.agents.remove(index as usize);
        if let Ok(number) = self.agent_numbers.find_entry(entry.id.hash(), |other| *other == index)
        {
            number.remove();
        }
        // Frees what a crowd of agents has left allocated, as `give_back_memory` does for the other
        // tables.
        if self.agents.len() <= self.few_agents && self.agents.capacity() > KEEP {
            self.few_agents = self.agents.len() / 2;
            let Self { agents, agent_numbers, .. } = self;
            agents.shrink_to_fit();
            agent_numbers.shrink_to(agents.len(), |&index| agents[index as usize].id.hash());
        }
    }
}
