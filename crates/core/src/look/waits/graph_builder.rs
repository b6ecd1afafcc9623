//! Builds the graph of an overview, one kind of edge after the other.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use navlock_engine::{Mode, Patience};

use super::graph::{Edges, Graph, Index, NamedEntry, Why, index};
use crate::{
    ClientId,
    look::{LockId, LockName, Overview, Queue},
};

/// The graph of what an overview has.
pub(super) fn graph(overview: &Overview) -> Graph<'_> {
    let mut builder = Builder::default();
    for (name, queue) in &overview.queues {
        builder.add_queue(name, queue);
    }
    builder.add_inside();
    builder.add_inside_agents();
    builder.add_same_agents();
    builder.build()
}

/// A graph that is being built. Each `add_` adds one kind of edge. The queues come first, because
/// they make the nodes that all other edges connect.
#[derive(Default)]
struct Builder<'a> {
    /// The locks and requests of all queues, and the nodes in between.
    nodes: Vec<Option<NamedEntry<'a>>>,
    edges: Vec<(Index, Index, Why)>,
    /// The node of each lock.
    locks: HashMap<LockId, Index, RandomState>,
    /// For each agent, the requests that do not say which of the agent's locks they are inside of.
    unsaid: HashMap<ClientId, Vec<Index>, RandomState>,
}

/// The last requests of a queue.
#[derive(Default)]
struct Last {
    any: Option<Index>,
    exclusive: Option<Index>,
}

impl Last {
    /// The last one that conflicts with a request of this mode.
    fn before(&self, mode: Mode) -> Option<Index> {
        match mode {
            Mode::Exclusive => self.any,
            Mode::Shared => self.exclusive,
        }
    }

    fn add(&mut self, request: Index, mode: Mode) {
        self.any = Some(request);
        if mode == Mode::Exclusive {
            self.exclusive = self.any;
        }
    }
}

/// The held locks of a queue, as its requests wait for them.
struct Held {
    /// The node for which an exclusive request waits: the only lock, or the node in between that
    /// leads to all locks.
    all: Option<Index>,
    /// The lock for which a shared request waits.
    exclusive: Option<Index>,
}

impl<'a> Builder<'a> {
    /// Adds the locks and requests of a name, and an edge from each request to the held locks and to
    /// the requests before it for which it waits.
    fn add_queue(&mut self, name: &'a LockName, queue: &'a Queue) {
        let first = index(self.nodes.len());
        for entry in &queue.held {
            let lock = self.add_node(Some(NamedEntry { name, entry, is_held: true }));
            self.locks.insert(entry.id, lock);
        }
        if queue.pending.is_empty() {
            return;
        }
        let held = self.add_held(queue, first);
        let (mut last, mut last_to_stay) = (Last::default(), Last::default());
        for entry in &queue.pending {
            let request = self.add_node(Some(NamedEntry { name, entry, is_held: false }));
            let hard = match entry.mode {
                Mode::Exclusive => held.all,
                Mode::Shared => held.exclusive,
            };
            self.edges.extend(hard.map(|to| (request, to, Why::Held)));
            let soft = last.before(entry.mode);
            self.edges.extend(soft.map(|to| (request, to, Why::Ahead)));
            // The requests between `to_stay` and this request may give up. Once they have given up,
            // this request waits for `to_stay`.
            let to_stay = last_to_stay.before(entry.mode).filter(|to| soft != Some(*to));
            self.edges.extend(to_stay.map(|to| (request, to, Why::Ahead)));
            last.add(request, entry.mode);
            if entry.patience != Patience::MayGiveUp {
                last_to_stay.add(request, entry.mode);
            }
            // An agent that has named one of its own locks would have named the others as well.
            let agent = entry.id.client_id;
            if !entry.inside.iter().any(|lock| lock.client_id == agent) {
                let requests = self.unsaid.entry(agent).or_default();
                // Only the first request of each name is noted.
                if requests.last().is_none_or(|last| *last < first) {
                    requests.push(request);
                }
            }
        }
    }

    /// Adds the node in between that leads from the requests of a queue to its locks, if there are
    /// several locks. The node of its first lock is `first`.
    fn add_held(&mut self, queue: &Queue, first: Index) -> Held {
        let nodes = first..index(self.nodes.len());
        let mut modes = nodes.clone().zip(queue.held.iter().map(|entry| entry.mode));
        let exclusive = modes.find(|(_, mode)| *mode == Mode::Exclusive);
        let all = match nodes.len() {
            0 => None,
            1 => Some(nodes.start),
            _ => Some(self.add_before(nodes, Why::Held)),
        };
        Held { all, exclusive: exclusive.map(|(lock, _)| lock) }
    }

    /// Adds an edge to each request from the locks that it names as those inside which it was made.
    fn add_inside(&mut self) {
        for (request, at) in requests(&self.nodes) {
            // An owner takes its name again and again under the same id. A lock that was taken after
            // the request was made is not the one inside which the request was made.
            let is_later = |lock: Index| {
                let lock = self.nodes[lock as usize].map(|at| at.entry);
                lock.is_some_and(|lock| lock.taken > 0 && lock.since > at.entry.since)
            };
            let inside = at.entry.inside.iter().filter_map(|lock| self.locks.get(lock));
            let inside = inside.filter(|lock| !is_later(**lock));
            self.edges.extend(inside.map(|lock| (*lock, request, Why::Inside)));
        }
    }

    /// Adds edges from all locks of an agent to the requests that were perhaps made inside
    /// [some](LockId::some_of) of them.
    fn add_inside_agents(&mut self) {
        let mut inside: HashMap<ClientId, Vec<Index>, RandomState> = HashMap::default();
        for (request, at) in requests(&self.nodes) {
            for lock in at.entry.inside.iter().filter(|lock| lock.is_some_of()) {
                let requests = inside.entry(lock.client_id).or_default();
                if requests.last() != Some(&request) {
                    requests.push(request);
                }
            }
        }
        // FAST: mostly all locks are known by their ids.
        if inside.is_empty() {
            return;
        }
        let mut locks = self.locks_of(&inside);
        for (agent, requests) in inside {
            let mut locks = locks.remove(&agent).unwrap_or_default();
            locks.sort_unstable();
            self.add_between(&locks, &requests, Why::InsideAgent);
        }
    }

    /// Adds an edge from each lock of an agent to those requests of the agent that do not say which of
    /// its locks they are inside of.
    fn add_same_agents(&mut self) {
        let unsaid = std::mem::take(&mut self.unsaid);
        let mut locks = self.locks_of(&unsaid);
        for (agent, requests) in unsaid {
            let mut locks = locks.remove(&agent).unwrap_or_default();
            if let [request] = *requests {
                // A lock of the same name makes no edge: it is usual that two tasks of an agent take
                // turns.
                let name_of = |node: Index| self.nodes[node as usize].map(|at| at.name);
                let name = name_of(request);
                locks.retain(|lock| name_of(*lock) != name);
            }
            self.add_between(&locks, &requests, Why::SameAgent);
        }
    }

    /// The locks of each of these agents.
    fn locks_of(
        &self,
        agents: &HashMap<ClientId, Vec<Index>, RandomState>,
    ) -> HashMap<ClientId, Vec<Index>, RandomState> {
        let mut found: HashMap<_, Vec<_>, _> = HashMap::default();
        for (id, lock) in &self.locks {
            if agents.contains_key(&id.client_id) {
                found.entry(id.client_id).or_default().push(*lock);
            }
        }
        found
    }

    /// Adds an edge from each of these locks to each of these requests. If there are several requests,
    /// one node stands between the locks and the requests.
    fn add_between(&mut self, locks: &[Index], requests: &[Index], why: Why) {
        if locks.is_empty() {
            return;
        }
        let to = match *requests {
            [request] => request,
            _ => self.add_before(requests.iter().copied(), why),
        };
        self.edges.extend(locks.iter().map(|lock| (*lock, to, why)));
    }

    /// Adds a node in between, with an edge to each of `these`.
    fn add_before(&mut self, these: impl Iterator<Item = Index>, why: Why) -> Index {
        let between = self.add_node(None);
        self.edges.extend(these.map(|to| (between, to, why)));
        between
    }

    fn add_node(&mut self, node: Option<NamedEntry<'a>>) -> Index {
        let added = index(self.nodes.len());
        self.nodes.push(node);
        added
    }

    fn build(self) -> Graph<'a> {
        let Self { nodes, edges, .. } = self;
        let backwards = edges.iter().map(|&(from, to, why)| (to, from, why));
        let blocks = Edges::new(nodes.len(), backwards);
        let waits = Edges::new(nodes.len(), edges.iter().copied());
        Graph { nodes, waits, blocks }
    }
}

/// The pending requests among the nodes.
fn requests<'n, 'a>(
    nodes: &'n [Option<NamedEntry<'a>>],
) -> impl Iterator<Item = (Index, NamedEntry<'a>)> + use<'n, 'a> {
    let all = (0..).zip(nodes).filter_map(|(node, at)| at.map(|at| (node, at)));
    all.filter(|(_, at)| !at.is_held)
}
