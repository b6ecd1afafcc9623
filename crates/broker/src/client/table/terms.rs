//! The terms of agents: until when they have their locks, where locks end by themselves.

use navlock_wire::BootTime;

/// The term of an agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct AgentTerm {
    pub(super) ends: BootTime,
    /// It has ended, and with it what was held. Nobody needs to look again.
    pub(super) is_over: bool,
    /// The other times of the term, if the daemon has told them.
    pub(super) bounds: Option<Bounds>,
}

/// The other times of a term.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) heard: BootTime,
    pub(super) due: BootTime,
    pub(super) expires: BootTime,
}

/// What is known of the terms of all agents without a look at each.
#[derive(Debug, Default)]
pub(super) struct TermIndex {
    /// Whether there have been any terms.
    pub(super) are_known: bool,
    /// None that is not over ends before this.
    pub(super) earliest: Option<BootTime>,
}

impl TermIndex {
    pub(super) fn are_known(&self) -> bool {
        self.are_known
    }

    /// There is one that ends then.
    pub(super) fn add(&mut self, ends: BootTime) {
        self.earliest = Some(self.earliest.map_or(ends, |earliest| earliest.min(ends)));
    }
}
