//! The agents of a client.

use std::{collections::HashSet, mem, sync::Arc, task::Waker};

use navlock_core::{AgentInfo, ClientId, Error, Lost};
use navlock_engine::AgentId;
use navlock_wire::ToDaemon;

use super::{Agent, ClientTable, index_of_32_bits, number};

impl ClientTable {
    pub(in super::super) fn open_agent(
        &mut self,
        client_id: ClientId,
        bucket: Option<&Arc<str>>,
        info: AgentInfo,
    ) -> AgentId {
        let (bucket, requests) = (bucket.cloned(), HashSet::default());
        let agent = Agent { client_id, bucket, info, terminated: false, term: None, requests };
        let index = self.agents.insert(agent);
        let id = AgentId::from_index(index_of_32_bits(index));
        for message in self.introduction(index) {
            self.say(&message);
        }
        id
    }

    pub(in super::super) fn describe(&mut self, agent: AgentId, info: &AgentInfo) {
        if let Some(known) = self.agents.get_mut(agent.index()) {
            known.info.update(info);
            let info = known.info.clone();
            if known.bucket.is_some() {
                self.say(&ToDaemon::Describe { agent: number(agent), info });
            }
        }
    }

    pub(in super::super) fn close_agent(&mut self, agent: AgentId) -> Vec<Waker> {
        let wakers = self.end_agent(agent);
        if self.agents.try_remove(agent.index()).is_some_and(|agent| agent.bucket.is_some()) {
            self.say(&ToDaemon::CloseAgent { agent: number(agent) });
        }
        wakers
    }

    /// Ends all that the agent has. Returns the wakers to call.
    ///
    /// From here on, what the daemon says of the agent's requests and locks is ignored.
    pub(in super::super) fn terminate(&mut self, agent: AgentId) -> Vec<Waker> {
        // The agent's slots are cleared before the daemon hears of its end.
        let wakers = self.end_agent(agent);
        if self.agents.get(agent.index()).is_some_and(|agent| agent.bucket.is_some()) {
            self.say(&ToDaemon::Terminate { agent: number(agent) });
        }
        wakers
    }

    pub(super) fn end_agent(&mut self, agent: AgentId) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let Some(Agent { terminated, requests, .. }) = self.agents.get_mut(agent.index()) else {
            return wakers;
        };
        *terminated = true;
        for index in mem::take(requests) {
            self.end(index, &Error::Terminated, Lost::Terminated, &mut wakers);
            self.requests[index].agent = None;
        }
        if !self.is_forked() {
            self.owned.slots().end_agent(agent, &mut wakers);
        }
        wakers
    }
}
