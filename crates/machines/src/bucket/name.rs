//! A name for which there is something to do: what, in which order, and how it is tried.

use std::collections::{HashMap, VecDeque};

use navlock_engine::RequestId;

use crate::{
    ended::Ended,
    hash::HashState,
    table::AgentSerial,
    transactions::{Leaving, MOST},
};

/// Something that was asked for, and that has to be done.
#[derive(Debug)]
pub(crate) enum Todo {
    Request(RequestId, AgentSerial),
    /// This has the agent of the request, if the agent is known and may have asked for something
    /// before.
    Remove(Ended, Option<AgentSerial>),
}

/// A name for which there is something to do.
///
/// | what | goes |
/// |---|---|
/// | `leaving` | first |
/// | a grant | before what follows, as [`GrantTries`] says |
/// | `ending` | before requests |
/// | `todo` | last, in the order of the calls |
#[derive(Debug, Default)]
pub(super) struct Name {
    /// Requests, and the ends of requests whose agents have made other requests for this name.
    pub(super) todo: VecDeque<(u64, Todo)>,
    /// Requests and locks to end.
    pub(super) ending: VecDeque<(u64, Ended)>,
    /// What has to be written to give the name up.
    pub(super) leaving: VecDeque<(u64, Leaving)>,
    /// How many requests each agent has in `todo`.
    asking: HashMap<AgentSerial, usize, HashState>,
    /// The number of the operation that is on its way.
    pub(super) under_way: Option<u64>,
    /// Whether this is a theft that waits for the owner of the name.
    pub(super) is_theft: bool,
    pub(super) grants: GrantTries,
}

/// How grants of a name are tried.
///
/// | from | to | when |
/// |---|---|---|
/// | not tried | tried at a version | a grant is sent, or what is in front cannot be granted |
/// | tried at a version | not tried | the mirror has another version |
/// | together | apart, not tried | a grant found that a lease had ended |
/// | any | together, not tried | time has passed, or the store has begun anew |
#[derive(Debug, Default)]
pub(super) struct GrantTries {
    /// Whether requests are granted one by one, because the lease of one of several had ended, and it is
    /// not known which one.
    is_apart: bool,
    /// The version of the mirror at which a grant was last tried.
    at: Option<(i64, i64)>,
}

impl GrantTries {
    /// Whether a grant was tried at this version of the mirror: the next try would have the same
    /// outcome.
    pub(super) fn were_made_at(&self, version: (i64, i64)) -> bool {
        self.at == Some(version)
    }

    pub(super) fn note_made_at(&mut self, version: (i64, i64)) {
        self.at = Some(version);
    }

    /// How many requests one transaction grants at most.
    pub(super) fn most(&self) -> usize {
        if self.is_apart { 1 } else { MOST }
    }

    /// To be called when the last grant has found that a lease had ended. The next requests are
    /// granted one by one.
    pub(super) fn try_apart(&mut self) {
        *self = Self { is_apart: true, at: None };
    }

    /// Forgets what was found, because it may have changed.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Name {
    /// Whether there is no operation on its way and nothing else to do.
    pub(super) fn is_idle(&self) -> bool {
        self.oldest().is_none()
    }

    /// The number of the oldest operation that is on its way or has still to be done.
    pub(super) fn oldest(&self) -> Option<u64> {
        let todo = self.todo.front().map(|&(number, _)| number);
        let ending = self.ending.front().map(|&(number, _)| number);
        let leaving = self.leaving.front().map(|&(number, _)| number);
        self.under_way.into_iter().chain(todo).chain(ending).chain(leaving).min()
    }

    /// To be called when the store has begun anew: see
    /// [`Bucket::begin_anew`](super::Bucket::begin_anew).
    pub(super) fn begin_anew(&mut self) {
        self.under_way = None;
        self.grants.forget();
        self.ending.clear();
        self.leaving.clear();
        self.todo.retain(|(_, todo)| matches!(todo, Todo::Request(..)));
    }

    /// Whether this agent has asked for something that has still to be done.
    pub(super) fn is_asking(&self, agent: AgentSerial) -> bool {
        self.asking.contains_key(&agent)
    }

    /// Counts an entry that is added to `todo`.
    pub(super) fn count(&mut self, todo: &Todo) {
        if let Todo::Request(_, agent) = *todo {
            *self.asking.entry(agent).or_default() += 1;
        }
    }

    /// Removes the first entry of `todo`.
    pub(super) fn pop(&mut self) {
        let Some((_, Todo::Request(_, agent))) = self.todo.pop_front() else { return };
        if let Some(count) = self.asking.get_mut(&agent) {
            *count -= 1;
            if *count == 0 {
                self.asking.remove(&agent);
            }
        }
    }
}
