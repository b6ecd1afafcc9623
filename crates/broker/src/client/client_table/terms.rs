//! The terms of agents: until when agents have their locks, where locks end by themselves.

use navlock_wire::{BootTime, TermBounds};

/// The term of an agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct AgentTerm {
    pub(super) ends: BootTime,
    /// Whether the term has ended, and with it all locks of the agent. Nobody needs to look again.
    pub(super) is_over: bool,
    /// The other times of the term, if the daemon has told them.
    pub(super) bounds: Option<TermBounds>,
}

/// What is known of the terms of all agents together, so that nobody has to look at each.
#[derive(Debug, Default)]
pub(super) struct TermIndex {
    /// Whether there have been any terms.
    pub(super) are_known: bool,
    /// No term that is not over ends before this moment.
    pub(super) earliest: Option<BootTime>,
}

impl TermIndex {
    /// Notes that there is a term that ends at this moment.
    pub(super) fn add(&mut self, ends: BootTime) {
        self.earliest = Some(self.earliest.map_or(ends, |earliest| earliest.min(ends)));
    }
}
