//! Agents, as far as the engine knows them: a number and what it owns.

use crate::{LockManager, list::List, manager::KEEP, queue::to_index};

/// An agent: one client that can die as a whole.
///
/// The host hands these out and says which client they stand for. It may use a number again once
/// its agent has been terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(u32);

impl AgentId {
    /// The agent with this number.
    pub const fn from_index(index: u32) -> Self {
        Self(index)
    }

    /// The number the host gave.
    ///
    /// ```
    /// assert_eq!(navlock_engine::AgentId::from_index(7).index(), 7);
    /// ```
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Numbers are often consecutive; a table goes by the highest and by the lowest bits.
    fn hash(self) -> u64 {
        let spread = u64::from(self.0).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        spread ^ spread >> 32
    }
}

/// Where an agent stands in its lock manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AgentIndex(pub(crate) u32);

/// What one agent has in one lock manager. Exists from its first request until its end.
#[derive(Clone, Debug)]
pub(crate) struct AgentEntry {
    pub(crate) id: AgentId,
    /// Its pending requests, in the order in which they were made.
    pub(crate) requests: List,
    /// Its locks, in the order in which they were granted.
    pub(crate) locks: List,
}

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

    /// Where the agent stands, if it is known.
    #[inline]
    pub(crate) fn find_agent(&mut self, agent: AgentId) -> Option<AgentIndex> {
        // FAST: mostly it is the one that it was last time.
        let last = self.last_agent;
        if self.agents.get(last.0 as usize).is_some_and(|entry| entry.id == agent) {
            return Some(last);
        }
        let is_it = |&index: &u32| self.agents[index as usize].id == agent;
        let found = AgentIndex(*self.agent_numbers.find(agent.hash(), is_it)?);
        self.last_agent = found;
        Some(found)
    }

    /// Where the agent stands from now on.
    #[inline]
    pub(crate) fn get_agent(&mut self, agent: AgentId) -> AgentIndex {
        self.find_agent(agent).unwrap_or_else(|| self.add_agent(agent))
    }

    /// Makes an agent known that is not.
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
        // What a crowd left allocated; see `give_back_memory`.
        if self.agents.len() <= self.few_agents && self.agents.capacity() > KEEP {
            self.few_agents = self.agents.len() / 2;
            let Self { agents, agent_numbers, .. } = self;
            agents.shrink_to_fit();
            agent_numbers.shrink_to(agents.len(), |&index| agents[index as usize].id.hash());
        }
    }
}
