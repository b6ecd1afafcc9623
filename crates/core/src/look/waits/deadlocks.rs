//! Deadlocks: locks and requests that wait for each other.

use std::sync::Arc;

use super::{
    Why,
    cycles::{Cycle, cycles},
    graph::{Graph, Index},
    graph_builder,
};
use crate::{
    AgentInfo,
    look::{Entry, LockId, LockName, Overview},
};

/// Locks and requests that wait for each other in a cycle.
///
/// [`Display`](std::fmt::Display) shows it as a few lines of text. The first line says what it is.
/// Then there is a line for each request: who waits for what, since when, and who is in the way.
/// Nothing in the text can move a cursor.
///
/// [`headline`](Self::headline), [`lines`](Self::lines) and [`Member::who`] are for programs that lay
/// out the text themselves:
///
/// ```
/// # use std::future::IntoFuture;
/// # use navlock::{Error, UserAgent, blocking::block_on_timeout, look::LookOptions};
/// # let user_agent = UserAgent::new();
/// # let locks = user_agent.lock_manager("app");
/// # let mut looker = user_agent.look(LookOptions::default().once()).expect("in this process");
/// # let account = locks.lock("account").blocking()?;
/// # let mut again = locks.lock("account").inside(&account).into_future();
/// # assert!(block_on_timeout(&mut again, std::time::Duration::ZERO).is_none());
/// use std::time::Instant;
///
/// use navlock::look::deadlocks;
///
/// looker.next(None)?;
/// for deadlock in deadlocks(looker.overview()) {
///     println!("<h1>{}</h1>", deadlock.headline());
///     for line in deadlock.lines(Instant::now()) {
///         println!("<li>{}</li>", line.replace('<', "&lt;"));
///     }
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlock {
    /// The members in the order of the cycle: each waits for the next, and the last one for the first.
    /// The first is the request that [gives way](Self::gives_way).
    pub members: Vec<Member>,
    /// Whether every step is known. If not, it is a possible deadlock.
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
    /// The agent that has it; `None` if that is not known.
    pub agent: Option<Arc<AgentInfo>>,
    /// Why it waits for the next member.
    pub why: Why,
}

/// Says that a request is in a deadlock, for whoever waits for the request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InDeadlock {
    /// The deadlock in words: see [`Deadlock::told`].
    pub told: String,
    /// Whether this request is the one that [gives way](Deadlock::gives_way). In one process, the last request is
    /// the one that was last said to be inside a lock.
    pub gives_way: bool,
}

impl InDeadlock {
    /// A deadlock that is described by this text.
    pub fn new(told: String, gives_way: bool) -> Self {
        Self { told, gives_way }
    }
}

/// All deadlocks, the certain ones first. If there are very many, only some of them.
///
/// Of deadlocks that have requests in common, as many are returned as have to be broken: without the
/// requests that [give way](Deadlock::gives_way), no deadlock of these is left. Who waited behind one of them may
/// be in another deadlock then.
///
/// ```
/// # use std::future::IntoFuture;
/// # use navlock::{Error, UserAgent, blocking::block_on_timeout, look::LookOptions};
/// # let user_agent = UserAgent::new();
/// # let locks = user_agent.lock_manager("app");
/// # let mut looker = user_agent.look(LookOptions::default().once()).expect("in this process");
/// # let account = locks.lock("account").blocking()?;
/// # let mut again = locks.lock("account").inside(&account).into_future();
/// # assert!(block_on_timeout(&mut again, std::time::Duration::ZERO).is_none());
/// use navlock::look::deadlocks;
///
/// looker.next(None)?;
/// for deadlock in deadlocks(looker.overview()).iter().filter(|deadlock| deadlock.is_certain) {
///     // Who waits for what, since when, and who is in the way.
///     eprintln!("{deadlock}");
/// }
/// # assert_eq!(deadlocks(looker.overview()).len(), 1);
/// # Ok::<(), Error>(())
/// ```
pub fn deadlocks(overview: &Overview) -> Vec<Deadlock> {
    found(overview, true)
}

/// All deadlocks, with those that are only possible or without.
pub(super) fn found(overview: &Overview, with_possible: bool) -> Vec<Deadlock> {
    // FAST: mostly nobody waits, or the waits lead no further.
    if overview.queues.values().all(|queue| queue.pending.is_empty()) {
        return Vec::new();
    }
    let graph = graph_builder::graph(overview);
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
        // A node in between is left out. The edge from it has the same reason as the edge that
        // leads to it.
        let members = cycle.iter().filter_map(|(node, why)| {
            let at = graph.at(*node)?;
            Some(Member {
                name: at.name.clone(),
                entry: at.entry.clone(),
                is_held: at.is_held,
                agent: overview.info_of(at.entry),
                why: *why,
            })
        });
        Self { members: members.collect(), is_certain }
    }

    /// The request that fails, if it [can](crate::look::Patience::GivesWay): the last one of those that can. If
    /// none can, the one that was made last. No two deadlocks of an overview have the same, so it identifies the
    /// deadlock.
    pub fn gives_way(&self) -> LockId {
        self.members[0].entry.id
    }

    /// Whether this request is a member.
    pub fn has_waiting(&self, id: LockId) -> bool {
        self.members.iter().any(|member| !member.is_held && member.entry.id == id)
    }

    /// Whether all members are still there, unchanged, so that this is still a deadlock.
    pub fn stands(&self, overview: &Overview) -> bool {
        self.members.iter().all(|member| {
            overview.queues.get(&member.name).is_some_and(|queue| {
                let entries = if member.is_held { &queue.held } else { &queue.pending };
                let known = entries.iter().find(|entry| entry.id == member.entry.id);
                // If the name is owned, its owner may have released the lock and taken it again
                // since: the token shows that.
                known.is_some_and(|known| {
                    let Entry { token, inside, patience, .. } = &member.entry;
                    (known.token, &known.inside, known.patience) == (*token, inside, *patience)
                })
            })
        })
    }
}
