//! One name that is owned or waited for.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use navlock_core::Mode;
use navlock_engine::AgentId;

use super::maps::SlotIndex;

/// A name that agents of this client own or wait for.
#[derive(Default)]
pub(super) struct Name {
    /// How many exclusive requests for the name are waiting. No agent's take may overtake them.
    writers: u32,
    /// How many shared requests for the name are waiting, for each agent that has any. No exclusive
    /// take may overtake them, and no shared take of the same agent.
    readers: HashMap<AgentId, u32, RandomState>,
    /// The slots in which the name can be taken, by the agent and in the mode of the slot, unless the
    /// slot is held or recalled.
    pub(super) slots: Vec<SlotIndex>,
}

impl Name {
    pub(super) fn is_awaited(&self) -> bool {
        self.writers > 0 || !self.readers.is_empty()
    }

    /// Whether this take would overtake no waiting request.
    pub(super) fn admits(&self, agent: AgentId, mode: Mode) -> bool {
        self.writers == 0
            && match mode {
                Mode::Exclusive => self.readers.is_empty(),
                Mode::Shared => !self.readers.contains_key(&agent),
            }
    }

    pub(super) fn begin_wait(&mut self, agent: AgentId, mode: Mode) {
        match mode {
            Mode::Exclusive => self.writers += 1,
            Mode::Shared => *self.readers.entry(agent).or_default() += 1,
        }
    }

    pub(super) fn end_wait(&mut self, agent: AgentId, mode: Mode) {
        match mode {
            Mode::Exclusive => self.writers = self.writers.saturating_sub(1),
            Mode::Shared => {
                if let Some(waiting) = self.readers.get_mut(&agent) {
                    *waiting = waiting.saturating_sub(1);
                    if *waiting == 0 {
                        self.readers.remove(&agent);
                    }
                }
            }
        }
    }
}
