//! The graph of locks and requests: which of them wait for which.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use navlock_engine::Mode;

use crate::{
    ClientId,
    look::{Entry, LockId, LockName, Overview},
};

/// Why a node waits for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// A request waits for a held lock that conflicts with it. A hard block.
    Held,
    /// A request waits for another one before it in the queue that conflicts with it. A soft block, and not
    /// known to last if the other one [may give up](Entry::may_give_up).
    Ahead,
    /// A lock waits for a request that was made inside it.
    Inside,
    /// A lock may wait for a request of the same agent that does not say what it is inside of.
    SameAgent,
    /// A lock of another machine may wait for a request that was made inside a lock of the same agent. Only
    /// that machine knows which of the agent's locks it is.
    InsideAgent,
}

impl Why {
    /// Whether the wait is certain, and not only possible.
    pub(super) fn is_known(self) -> bool {
        !matches!(self, Self::SameAgent | Self::InsideAgent)
    }
}

/// A lock or a request, with its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamedEntry<'a> {
    pub(super) name: &'a LockName,
    pub(super) entry: &'a Entry,
    pub(super) is_held: bool,
}

/// The number of a node.
pub(super) type Index = u32;

/// Locks and requests, and what each of them waits for.
///
/// If 10,000 requests wait for 10,000 shared locks of a name, one node stands between the requests and
/// the locks, so that the graph has 20,000 edges for these waits. Such a node also stands between the
/// locks and the requests of one agent.
pub(super) struct Graph<'a> {
    /// `None` for a node that only stands between others.
    pub(super) nodes: Vec<Option<NamedEntry<'a>>>,
    /// The edges from each node to those for which it waits.
    pub(super) waits: Edges,
    /// The edges from each node to those that wait for it.
    pub(super) blocks: Edges,
}

/// Edges in rows, one for each node.
pub(super) struct Edges {
    /// The beginning of each row, and the end of the last one.
    starts: Vec<u32>,
    edges: Vec<(Index, Why)>,
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

/// The locks of an agent, and those of its requests that do not say what they are inside of.
#[derive(Default)]
struct AgentNodes {
    locks: Vec<Index>,
    requests: Vec<Index>,
}

impl<'a> Graph<'a> {
    pub(super) fn new(overview: &'a Overview) -> Self {
        let mut nodes: Vec<Option<NamedEntry<'a>>> = Vec::new();
        let mut edges = Vec::new();
        let mut locks: HashMap<LockId, Index, RandomState> = HashMap::default();
        let mut has: HashMap<ClientId, AgentNodes, RandomState> = HashMap::default();

        for (name, queue) in &overview.queues {
            let first = index(nodes.len());
            for entry in &queue.held {
                locks.insert(entry.id, index(nodes.len()));
                nodes.push(Some(NamedEntry { name, entry, is_held: true }));
            }
            if queue.pending.is_empty() {
                continue;
            }
            let held = first..index(nodes.len());
            let modes = queue.held.iter().map(|entry| entry.mode);
            let exclusive = held.clone().zip(modes).find(|(_, mode)| *mode == Mode::Exclusive);
            // The node or nodes for which exclusive requests wait.
            let all = match held.len() {
                0 => None,
                1 => Some(held.start),
                _ => {
                    let between = index(nodes.len());
                    nodes.push(None);
                    edges.extend(held.map(|lock| (between, lock, Why::Held)));
                    Some(between)
                }
            };
            let (mut last, mut last_to_stay) = (Last::default(), Last::default());
            for entry in &queue.pending {
                let request = index(nodes.len());
                nodes.push(Some(NamedEntry { name, entry, is_held: false }));
                let hard = match entry.mode {
                    Mode::Exclusive => all,
                    Mode::Shared => exclusive.map(|(lock, _)| lock),
                };
                edges.extend(hard.map(|to| (request, to, Why::Held)));
                let soft = last.before(entry.mode);
                edges.extend(soft.map(|to| (request, to, Why::Ahead)));
                // The requests between `to_stay` and this request may give up. Once they have given up,
                // this request waits for `to_stay`.
                let to_stay = last_to_stay.before(entry.mode).filter(|to| soft != Some(*to));
                edges.extend(to_stay.map(|to| (request, to, Why::Ahead)));
                last.add(request, entry.mode);
                if !entry.may_give_up {
                    last_to_stay.add(request, entry.mode);
                }
                // An agent that has named one of its own locks would have named the others as well.
                let whose = entry.id.client_id;
                if !entry.inside.iter().any(|lock| lock.client_id == whose) {
                    let requests = &mut has.entry(whose).or_default().requests;
                    // Only the first request of each name.
                    let is_of_this_name = |last: &Index| *last >= first;
                    if !requests.last().is_some_and(is_of_this_name) {
                        requests.push(request);
                    }
                }
            }
        }

        for (request, at) in (0..).zip(&nodes) {
            let Some(NamedEntry { entry, is_held: false, .. }) = at else { continue };
            // An owner takes its name again and again under the same id. A lock that was taken after
            // the request was made is not the one inside which the request was made.
            let is_later = |lock: Index| {
                let lock = nodes[lock as usize].map(|at| at.entry);
                lock.is_some_and(|lock| lock.taken > 0 && lock.since > entry.since)
            };
            let inside = entry.inside.iter().filter_map(|lock| locks.get(lock));
            let inside = inside.filter(|lock| !is_later(**lock));
            edges.extend(inside.map(|lock| (*lock, request, Why::Inside)));
        }
        add_inside_agents(&mut nodes, &locks, &mut edges);

        // Collects the locks of each agent that has a request in `has`.
        for (id, lock) in &locks {
            if let Some(has) = has.get_mut(&id.client_id) {
                has.locks.push(*lock);
            }
        }
        let name_of =
            |nodes: &[Option<NamedEntry<'a>>], node: Index| nodes[node as usize].map(|at| at.name);
        for AgentNodes { locks, requests } in has.into_values() {
            match *requests {
                // A lock of the same name makes no edge: the agent waits for another task of its own,
                // as is usual.
                [request] => {
                    let name = name_of(&nodes, request);
                    let others = locks.into_iter().filter(|lock| name_of(&nodes, *lock) != name);
                    edges.extend(others.map(|lock| (lock, request, Why::SameAgent)));
                }
                _ if locks.is_empty() => {}
                _ => {
                    let between = index(nodes.len());
                    nodes.push(None);
                    edges.extend(locks.into_iter().map(|lock| (lock, between, Why::SameAgent)));
                    edges.extend(requests.iter().map(|to| (between, *to, Why::SameAgent)));
                }
            }
        }

        let backwards = edges.iter().map(|&(from, to, why)| (to, from, why));
        let blocks = Edges::new(nodes.len(), backwards);
        let waits = Edges::new(nodes.len(), edges.iter().copied());
        Self { nodes, waits, blocks }
    }

    /// The lock or request of a node; `None` if it only stands between others.
    pub(super) fn at(&self, node: Index) -> Option<NamedEntry<'a>> {
        self.nodes[node as usize]
    }

    /// Whether the node is a pending request.
    pub(super) fn is_request(&self, node: Index) -> bool {
        self.at(node).is_some_and(|at| !at.is_held)
    }

    /// All nodes.
    pub(super) fn indices(&self) -> std::ops::Range<Index> {
        0..index(self.nodes.len())
    }
}

/// Adds edges from the locks of other machines to the requests that were made inside a lock of the
/// same agent. Such a request names the lock by the id that its own broker uses, and here the lock
/// has another id.
fn add_inside_agents(
    nodes: &mut Vec<Option<NamedEntry<'_>>>,
    locks: &HashMap<LockId, Index, RandomState>,
    edges: &mut Vec<(Index, Index, Why)>,
) {
    let mut inside: HashMap<ClientId, AgentNodes, RandomState> = HashMap::default();
    for (request, at) in (0..).zip(&*nodes) {
        let Some(NamedEntry { entry, is_held: false, .. }) = at else { continue };
        for lock in entry.inside.iter().filter(|lock| !locks.contains_key(lock)) {
            let requests = &mut inside.entry(lock.client_id).or_default().requests;
            if requests.last() != Some(&request) {
                requests.push(request);
            }
        }
    }
    // FAST: mostly all locks are known by their ids.
    if inside.is_empty() {
        return;
    }
    for (id, lock) in locks.iter().filter(|(id, _)| id.is_made_up()) {
        if let Some(has) = inside.get_mut(&id.client_id) {
            has.locks.push(*lock);
        }
    }
    for AgentNodes { mut locks, requests } in inside.into_values() {
        locks.sort_unstable();
        match *requests {
            [request] => edges.extend(locks.iter().map(|lock| (*lock, request, Why::InsideAgent))),
            _ if locks.is_empty() => {}
            _ => {
                let between = index(nodes.len());
                nodes.push(None);
                edges.extend(locks.iter().map(|lock| (*lock, between, Why::InsideAgent)));
                edges.extend(requests.iter().map(|to| (between, *to, Why::InsideAgent)));
            }
        }
    }
}

impl Edges {
    fn new(nodes: usize, edges: impl Iterator<Item = (Index, Index, Why)> + Clone) -> Self {
        let mut starts = vec![0; nodes + 1];
        for (from, ..) in edges.clone() {
            starts[from as usize + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut rows = vec![(0, Why::Held); starts[nodes] as usize];
        for (from, to, why) in edges {
            rows[next[from as usize] as usize] = (to, why);
            next[from as usize] += 1;
        }
        Self { starts, edges: rows }
    }

    /// The edges of a node.
    pub(super) fn of(&self, node: Index) -> &[(Index, Why)] {
        let (start, end) = (self.starts[node as usize], self.starts[node as usize + 1]);
        &self.edges[start as usize..end as usize]
    }
}

/// The number of the node that stands there.
pub(super) fn index(at: usize) -> Index {
    // An overview with so many entries would not fit into any memory.
    Index::try_from(at).expect("there are fewer than 2^32 locks and requests")
}
