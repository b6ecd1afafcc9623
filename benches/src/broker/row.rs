//! What can be measured of a peer, and the name of the lock with which it is measured.

/// The name of the lock that every peer takes; it is as long as names usually are.
pub(super) const NAME: &str = "documents/42/body";

/// What is measured of every peer that can do it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Row {
    /// One process takes and releases a lock again and again that nobody else wants.
    Acquire,
    /// One process takes and releases a shared lock again and again.
    Shared,
    /// One process takes and releases locks of names that were never taken before.
    First,
    /// Two processes take a lock alternately, and neither wants it while the other has it.
    Recall,
    /// Two processes take the same lock in turn.
    Handover,
    /// One process asks who has what while another holds many locks.
    Query,
    /// One process asks who has what while another has released many locks, and may take them again.
    QueryIdle,
    /// A holder is killed while another process waits.
    Kill,
    /// A program runs a command that does nothing under a lock.
    Command,
}

impl Row {
    pub(super) const ALL: [Self; 9] = [
        Self::Acquire,
        Self::Shared,
        Self::First,
        Self::Recall,
        Self::Handover,
        Self::Query,
        Self::QueryIdle,
        Self::Kill,
        Self::Command,
    ];

    pub(super) const fn id(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Shared => "shared",
            Self::First => "first",
            Self::Recall => "recall",
            Self::Query => "query",
            Self::QueryIdle => "query-idle",
            Self::Handover => "handover",
            Self::Kill => "kill",
            Self::Command => "command",
        }
    }
}
