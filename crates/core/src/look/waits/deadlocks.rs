//! Those who wait for each other.

use std::sync::Arc;

use super::{
    Why,
    cycles::{Cycle, cycles},
    graph::{Graph, Index},
};
use crate::{
    AgentInfo,
    look::{Entry, LockId, LockName, Overview},
};

/// Locks and requests that wait for each other in a cycle.
///
/// Shown ([`Display`](std::fmt::Display)) it is a few lines of text: what it is, then for each request
/// who waits for what since when, and who is in its way. Nothing in the text can move a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlock {
    /// In their order: each waits for the next, and the last one for the first. The first is the request
    /// that was made last, which closed the cycle.
    pub members: Vec<Member>,
    /// Whether every step is known; else it is a possible deadlock.
    pub is_certain: bool,
}

/// A lock or a request in a [`Deadlock`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// Its name.
    pub name: LockName,
    /// The lock or the request.
    pub entry: Entry,
    /// Whether it is a lock.
    pub is_held: bool,
    /// Whose it is; `None` if that is not known.
    pub agent: Option<Arc<AgentInfo>>,
    /// Why it waits for the next.
    pub why: Why,
}

/// That a request is in a deadlock, as whoever waits for it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InDeadlock {
    /// The deadlock in words: see [`Deadlock::told`].
    pub told: String,
    /// Whether this request closed the cycle: it was made last or, in one process, was the last
    /// that was said to be inside a lock.
    pub is_last: bool,
}

impl InDeadlock {
    /// A deadlock that is told so.
    pub fn new(told: String, is_last: bool) -> Self {
        Self { told, is_last }
    }
}

/// All deadlocks that there are, the certain ones first; of very many, some.
///
/// Of those that have requests in common as many are told as have to be broken: without the requests
/// that have [closed](Deadlock::closed_by) them, there is none.
pub fn deadlocks(overview: &Overview) -> Vec<Deadlock> {
    found(overview, true)
}

/// The certain ones alone, which costs less.
pub(super) fn certain_deadlocks(overview: &Overview) -> Vec<Deadlock> {
    found(overview, false)
}

fn found(overview: &Overview, with_possible: bool) -> Vec<Deadlock> {
    // FAST: mostly nobody waits, or for nothing that leads further.
    if overview.queues.values().all(|queue| queue.pending.is_empty()) {
        return Vec::new();
    }
    let graph = Graph::new(overview);
    let certain = cycles(&graph, &[], false);
    let closed: Vec<Index> = certain.iter().map(|cycle| cycle[0].0).collect();
    let possible = if with_possible { cycles(&graph, &closed, true) } else { Vec::new() };
    let told = |is_certain| {
        let graph = &graph;
        move |cycle: Cycle| Deadlock::new(overview, graph, &cycle, is_certain)
    };
    let certain = certain.into_iter().map(told(true));
    certain.chain(possible.into_iter().map(told(false))).collect()
}

impl Deadlock {
    fn new(overview: &Overview, graph: &Graph<'_>, cycle: &Cycle, is_certain: bool) -> Self {
        // What only stands between others is for the same reason as what leads to it.
        let members = cycle.iter().filter_map(|(node, why)| {
            let at = graph.at(*node)?;
            Some(Member {
                name: at.name.clone(),
                entry: at.entry.clone(),
                is_held: at.is_held,
                agent: overview.info(at.entry.id.client_id).cloned(),
                why: *why,
            })
        });
        Self { members: members.collect(), is_certain }
    }

    /// The request that closed the cycle: the last one that was made. No two deadlocks of an overview have
    /// the same, so a deadlock is known by it.
    pub fn closed_by(&self) -> LockId {
        self.members[0].entry.id
    }

    /// Whether this request is a member.
    pub fn has_waiting(&self, id: LockId) -> bool {
        self.members.iter().any(|member| !member.is_held && member.entry.id == id)
    }

    /// Whether all of it is there still, as it was: then it is still a deadlock.
    pub fn stands(&self, overview: &Overview) -> bool {
        self.members.iter().all(|member| {
            overview.queues.get(&member.name).is_some_and(|queue| {
                let entries = if member.is_held { &queue.held } else { &queue.pending };
                let known = entries.iter().find(|entry| entry.id == member.entry.id);
                // Of a name that is taken without asking, it may be another hold by now.
                known.is_some_and(|known| {
                    let Entry { token, inside, may_give_up, .. } = &member.entry;
                    (known.token, &known.inside, known.may_give_up)
                        == (*token, inside, *may_give_up)
                })
            })
        })
    }
}
