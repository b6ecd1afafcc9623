//! Until when agents have what they have, where locks end by themselves.

use navlock_wire::Uptime;

/// Until when an agent has what it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct AgentTerm {
    pub(super) ends: Uptime,
    /// It has ended, and with it what was held. Nobody needs to look again.
    pub(super) is_over: bool,
    /// The rest of it, if the daemon has said that.
    pub(super) bounds: Option<Bounds>,
}

/// What a daemon says of a term besides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) heard: Uptime,
    pub(super) due: Uptime,
    pub(super) expires: Uptime,
}

/// What is to be known of the terms of all agents without a look at each.
#[derive(Debug, Default)]
pub(super) struct TermIndex {
    /// There have been any.
    pub(super) are_known: bool,
    /// None that is not over ends before this.
    pub(super) earliest: Option<Uptime>,
}

impl TermIndex {
    pub(super) fn are_known(&self) -> bool {
        self.are_known
    }

    /// There is one that ends then.
    pub(super) fn add(&mut self, ends: Uptime) {
        self.earliest = Some(self.earliest.map_or(ends, |earliest| earliest.min(ends)));
    }
}
