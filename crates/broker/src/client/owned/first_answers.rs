//! Which agents wait for the first answer to a request of theirs.
//!
//! Callbacks of one agent run in the order of its requests, where each could be granted when it was made. So an
//! agent takes no name here while an earlier request of its own has had no first answer: a grant, a refusal, or
//! that it waits. Its take goes to the daemon then, behind that request.
//!
//! No message says that a request waits. But the daemon answers in the order of the requests what it can answer
//! at once. So an answer to a later request says of all earlier ones that they have been answered, or wait.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Release},
};

use navlock_engine::AgentId;

/// How many agents have numbers of their own. Others share them, and then ask the daemon more often.
const MOST: usize = 64;

pub(super) struct FirstAnswers {
    /// All requests with smaller serial numbers have had their first answers.
    heard: AtomicU64,
    agents: [OfAgent; MOST],
}

#[derive(Default)]
struct OfAgent {
    /// One more than the serial number of the last request that went to the daemon.
    asked: AtomicU64,
    /// How many answers the program has not taken yet.
    untaken: AtomicU32,
}

impl Default for FirstAnswers {
    fn default() -> Self {
        Self { heard: AtomicU64::new(0), agents: [(); MOST].map(|()| OfAgent::default()) }
    }
}

impl FirstAnswers {
    fn of(&self, agent: AgentId) -> &OfAgent {
        &self.agents[agent.index() % MOST]
    }

    /// Whether an earlier request of this agent has had no first answer, as far as is known.
    #[inline]
    pub(super) fn are_awaited(&self, agent: AgentId) -> bool {
        let of = self.of(agent);
        of.untaken.load(Acquire) > 0 || of.asked.load(Acquire) > self.heard.load(Acquire)
    }

    /// Notes that a request goes to the daemon.
    pub(super) fn asked(&self, agent: AgentId, serial: u64) {
        self.of(agent).asked.store(serial + 1, Release);
    }

    /// Notes that the daemon has answered a request.
    pub(super) fn answered(&self, agent: AgentId, serial: u64) {
        self.of(agent).untaken.fetch_add(1, Release);
        self.heard.fetch_max(serial + 1, Release);
    }

    /// Notes that the program has taken an answer, or will not take it.
    pub(super) fn taken(&self, agent: AgentId) {
        self.of(agent).untaken.fetch_sub(1, Release);
    }
}
