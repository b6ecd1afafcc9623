//! The agents of a bucket in memory, and what is shown of each.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use navlock_engine::AgentId;

use super::look_table::ShownAgents;
use crate::{
    AgentInfo, ClientId, Error,
    agent_state::AgentState,
    sync::{Arc, shrink},
};

/// The agents of a bucket.
#[derive(Debug, Default)]
pub(super) struct Agents {
    pub(super) known: HashMap<AgentId, Known, RandomState>,
    /// Where the search for the next number begins.
    next: u32,
    /// What agents have said of themselves, and who looks. `None` if no agent has said anything and
    /// nobody looks.
    pub(super) shown: Option<Box<ShownAgents>>,
}

/// An agent, from its opening until it is closed.
#[derive(Debug)]
pub(super) struct Known {
    /// Who it is.
    pub(super) state: Arc<AgentState>,
    /// Whether the agent has ended in this backend, and gets nothing any more. `state` does not tell
    /// this: a user of the backend's interface ends the agent without it.
    ended: bool,
    /// The shards in which the agent has made requests. No other shard knows the agent. So the end
    /// of an agent costs no more than what the agent has used, and an agent that has used nothing
    /// is only this entry.
    shards: Vec<u32>,
}

impl Agents {
    #[inline]
    pub(super) fn open(&mut self, state: &Arc<AgentState>) -> AgentId {
        // Memory ends before there are 2^32 agents.
        let id = loop {
            let id = AgentId::from_index(self.next);
            self.next = self.next.wrapping_add(1);
            if !self.known.contains_key(&id) {
                break id;
            }
        };
        self.known.insert(id, Known { state: Arc::clone(state), ended: false, shards: Vec::new() });
        if self.shown.is_some() {
            self.tell_came(state);
        }
        id
    }

    pub(super) fn client_id(&self, agent: AgentId) -> Option<ClientId> {
        Some(self.known.get(&agent)?.state.client_id())
    }

    /// Notes that the shard gets to know the agent.
    ///
    /// # Errors
    ///
    /// If the agent has ended.
    #[cold]
    pub(super) fn admit(&mut self, agent: AgentId, shard: u32) -> Result<(), Error> {
        let known = self.known.get_mut(&agent).filter(|known| !known.ended);
        let known = known.ok_or(Error::Terminated)?;
        // A host may have given up a request before the shard noted its agent.
        if !known.shards.contains(&shard) {
            known.shards.push(shard);
        }
        Ok(())
    }

    /// The shards that know the agent.
    #[inline]
    pub(super) fn asked(&self, agent: AgentId) -> Vec<u32> {
        self.known.get(&agent).map_or_else(Vec::new, |known| known.shards.clone())
    }

    /// Lets these agents get nothing any more. Returns the shards that know them, in order, each
    /// with the agent that it knows.
    #[inline]
    pub(super) fn end(&mut self, agents: &[AgentId]) -> Vec<(u32, AgentId)> {
        let mut asked = Vec::new();
        for agent in agents {
            if let Some(known) = self.known.get_mut(agent) {
                known.ended = true;
                asked.extend(known.shards.iter().map(|shard| (*shard, *agent)));
            }
        }
        asked.sort_unstable();
        asked
    }

    #[inline]
    pub(super) fn close(&mut self, agent: AgentId) {
        let Some(known) = self.known.remove(&agent) else { return };
        shrink(&mut self.known);
        if self.shown.is_some() {
            self.tell_went(agent, &known.state);
        }
    }

    /// What an agent has said of itself, if it has.
    pub(super) fn described(&self, agent: AgentId) -> Option<Arc<AgentInfo>> {
        self.shown.as_ref()?.infos.get(&agent).cloned()
    }

    /// Notes what an agent says of itself.
    pub(super) fn describe(&mut self, agent: AgentId, info: &AgentInfo) {
        let Some(known) = self.known.get(&agent) else { return };
        // If a host speaks for the agent, the host itself keeps what the agent says.
        if known.state.is_elsewhere() {
            return;
        }
        let shown = self.shown.get_or_insert_default();
        let said = shown.infos.entry(agent).or_default();
        Arc::make_mut(said).update(info);
        let info = Arc::clone(said);
        if let Some(looked) = &shown.looked {
            looked.agent_came(known.state.client_id(), info);
        }
    }

    #[cold]
    pub(super) fn tell_came(&self, state: &AgentState) {
        if let Some(looked) = self.shown.as_ref().and_then(|shown| shown.looked.as_ref()) {
            looked.agent_came(state.client_id(), Arc::default());
        }
    }

    #[cold]
    pub(super) fn tell_went(&mut self, agent: AgentId, state: &AgentState) {
        let Some(ShownAgents { infos, looked }) = self.shown.as_deref_mut() else { return };
        infos.remove(&agent);
        shrink(infos);
        if let Some(looked) = looked {
            looked.agent_went(state.client_id());
        }
    }
}
